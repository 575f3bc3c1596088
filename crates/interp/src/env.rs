//! The values to which expressions and statements can refer.

use crate::exec::activation::Activation;
use crate::exec::functions::Functions;
use crate::grammar::tree::{FieldNode, Node};
use crate::stop::{internal, Res};
use crate::value::Value;
use wireloom_ir::Module;

/// A node and the bytes it is of.
#[derive(Clone, Copy)]
pub struct Seen<'a> {
    pub node: &'a Node,
    pub buf: &'a [u8],
}

/// The current item of a list or stream.
#[derive(Clone, Copy)]
pub struct Item<'a> {
    pub node: &'a FieldNode,
    pub buf: &'a [u8],
}

/// The values to which an expression can refer.
#[derive(Clone, Copy)]
pub struct Env<'a> {
    pub module: &'a Module,
    pub locals: &'a [Value],
    pub this: Option<Seen<'a>>,
    pub item: Option<Item<'a>>,
    pub acc: Option<u64>,
    pub act: Option<&'a Activation<'a>>,
    /// None: functions are made ready anew for each call.
    pub functions: Option<&'a Functions>,
}

impl<'a> Env<'a> {
    pub fn grammar(module: &'a Module, this: Seen<'a>) -> Env<'a> {
        Env { this: Some(this), ..Env::plain(module, &[]) }
    }

    /// Of an expression that sees nothing but these.
    pub fn plain(module: &'a Module, locals: &'a [Value]) -> Env<'a> {
        Env { module, locals, this: None, item: None, acc: None, act: None, functions: None }
    }

    /// Of a handler, before its locals are there.
    pub fn handler(act: &'a Activation<'a>) -> Env<'a> {
        Env { act: Some(act), functions: Some(&act.grammar.functions), ..Env::plain(&act.grammar.module, &[]) }
    }

    /// The handler that is run.
    pub fn activation(&self) -> Res<&'a Activation<'a>> {
        self.act.map_or_else(|| internal("a statement that needs a handler stands outside one"), Ok)
    }
}
