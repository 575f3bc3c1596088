//! Parsing: tests and their steps.

use super::parser::{Parser, Res};
use crate::*;

impl Parser {
    pub fn test(&mut self) -> Res<Test> {
        let name = self.str()?;
        if self.eat_word("code") {
            return Ok(Test { name, kind: TestKind::Code(HandlerId(self.index()?)), span: self.span()? });
        }
        self.word("sim")?;
        let params = self.list(|p| {
            let n = p.str()?;
            p.sign('=')?;
            Ok((n, p.str()?))
        })?;
        let mut steps = Vec::new();
        self.braces(|p| {
            steps.push(p.sim()?);
            Ok(())
        })?;
        Ok(Test { name, kind: TestKind::Sim { params, steps }, span: self.span()? })
    }

    fn sim(&mut self) -> Res<(Span, SimStep)> {
        let word = self.any_word()?;
        if word == "repeat" {
            let (first, next, times) = (HandlerId(self.index()?), HandlerId(self.index()?), self.num()?);
            let mut steps = Vec::new();
            self.braces(|p| {
                steps.push(p.sim()?);
                Ok(())
            })?;
            return Ok((self.span()?, SimStep::Repeat { first, next, times, steps }));
        }
        let step = match word.as_str() {
            "at" => {
                let (place, word) = (HandlerId(self.index()?), self.any_word()?);
                SimStep::At(place, Box::new(self.plain_sim(&word)?))
            }
            _ => self.plain_sim(&word)?,
        };
        Ok((self.end()?, step))
    }

    fn plain_sim(&mut self, word: &str) -> Res<SimStep> {
        match word {
            "wait" => return Ok(SimStep::Wait(self.num()?)),
            "run" => return Ok(SimStep::Run(HandlerId(self.index()?))),
            "give" => return Ok(SimStep::Give(HandlerId(self.index()?))),
            "see_log" => return Ok(SimStep::SeeLog(Some(self.bytes()?))),
            "see_no_log" => return Ok(SimStep::SeeLog(None)),
            "see_same" => return Ok(SimStep::SeeSame(HandlerId(self.index()?))),
            _ => {}
        }
        let at = SimPort { port: PortId(self.index()?), conn: self.num()? };
        Ok(match word {
            "check" => SimStep::Check(at, HandlerId(self.index()?)),
            "send" => SimStep::Send(at, self.bytes()?),
            "see" => SimStep::See(at, self.bytes()?),
            "see_closed" => SimStep::SeeClosed(at),
            "see_nothing" => SimStep::SeeNothing(at),
            "close" => SimStep::Close(at),
            "reset" => SimStep::Reset(at),
            "refuse" => SimStep::Refuse(at),
            "accept" => SimStep::Accept(at),
            _ => return self.error(format!("unknown step `{word}`")),
        })
    }
}
