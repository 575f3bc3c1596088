//! The ways to load programs: from the fastest to those that need least of clang, the stack and the
//! verifier.

use crate::compile::{Compiled, Thrift};
use crate::layout::sizes;
use crate::machine::Machine;
use crate::needs::{Found, Needs};
use crate::object::{Object, Settings};
use crate::portable::Portable;
use crate::{compile, Error};
use wireloom_codegen_c::xdp::XdpSource;

/// Compiles programs, and loads them.
type Make<'a> = dyn Fn(Thrift) -> Result<Compiled, Error> + 'a;
type Load<'a> = dyn Fn(Vec<u8>) -> Result<Object, Error> + 'a;

impl Object {
    /// Compiles and loads programs.
    pub fn load(source: &XdpSource, settings: &Settings) -> Result<Object, Error> {
        Found::here().check(Needs::of(source))?;
        let here = Machine::of(source)?;
        let manual = ("WL_MANUAL", u64::from(settings.manual_time));
        let constants = [&sizes(source)[..], &here.constants(), &[manual]].concat();
        // That clang runs is told once.
        let starting = |thrift| settings.starting.filter(|_| thrift == Thrift::Fast);
        let make = |thrift: Thrift| compile(thrift.text(source), thrift, &constants, starting(thrift));
        let load = |bytes| Object::load_compiled(source, settings, bytes, (&here, &[]));
        if settings.begin != Thrift::Fast {
            match Object::load_spare(settings.begin, &make, &load) {
                Err(Error::Stack { .. } | Error::Long { .. }) => {}
                loaded => return loaded,
            }
        }
        Object::load_first(source, &make, &load)
    }

    /// Loads programs that [`Portable::of`] has compiled, maybe on another machine.
    pub fn load_portable(source: &XdpSource, settings: &Settings, programs: Portable) -> Result<Object, Error> {
        Found::here().check(Needs::of(source))?;
        let here = Machine::of(source)?;
        let globals = here.globals();
        let Portable { first, spare, once } = programs;
        let load = |bytes| Object::load_compiled(source, settings, bytes, (&here, &globals));
        let make = |thrift| match thrift {
            Thrift::Fast => Ok(Compiled { bytes: first.clone(), once: once.clone() }),
            Thrift::Far => Ok(Compiled { bytes: spare.clone(), once: None }),
            // There are no others: on to the last one.
            Thrift::Spare | Thrift::Sparer | Thrift::Sparest | Thrift::Apart => {
                Err(Error::Stack { program: None, why: "of this executable".into() })
            }
        };
        Object::load_first(source, &make, &load)
    }

    /// Loads the fastest programs that clang and the kernel take.
    fn load_first(source: &XdpSource, make: &Make, load: &Load) -> Result<Object, Error> {
        let compiled = match make(Thrift::Fast) {
            // clang has tried all other ways.
            Err(Error::Stack { .. }) => return Object::load_spare(Thrift::Far, make, load),
            compiled => compiled?,
        };
        let spare = |thrift| Object::load_spare(thrift, make, load);
        let (mut object, once) = match load(compiled.bytes) {
            // A handler's second copy may be too much.
            Err(Error::Refused { why, .. }) if source.has_copies => (spare(Thrift::Spare)?, Some(why)),
            Err(Error::Long { .. }) if source.has_copies => {
                (spare(Thrift::Spare)?, Some("the two are too long for the verifier".into()))
            }
            // A function has room on the stack, but not with those that it calls.
            Err(Error::Stack { why, .. }) => (spare(Thrift::Spare)?, Some(why)),
            Err(Error::Long { .. }) => (spare(Thrift::Far)?, None),
            loaded => (loaded?, compiled.once),
        };
        object.once = once.filter(|_| source.has_copies);
        Ok(object)
    }

    /// Loads programs that need less of the kernel, and less again while it refuses them.
    fn load_spare(mut thrift: Thrift, make: &Make, load: &Load) -> Result<Object, Error> {
        let made = |thrift| make(thrift).and_then(|c| load(c.bytes));
        let mut loaded = made(thrift);
        while let Some(next) = loaded.as_ref().err().and_then(|e| thrift.next(e)) {
            thrift = next;
            match made(thrift) {
                // Another clang may not know how.
                Err(Error::Compile(_)) => {}
                again => loaded = again,
            }
        }
        let mut object = loaded?;
        object.thrift = thrift;
        Ok(object)
    }
}
