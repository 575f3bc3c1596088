//! The interpreter as a program of the runtime.

use super::Failure;
use std::sync::Arc;
use wireloom_interp::OutsideTable;
use wireloom_ir::Module;
use wireloom_runtime::Program;

/// Interprets a module. Another device keeps some of its tables, by number.
pub fn interpreted(module: &Arc<Module>, outside: Vec<Option<Arc<dyn OutsideTable>>>) -> Result<Program, Failure> {
    let program = Box::leak(Box::new(wireloom_interp::program_beside(module.clone(), outside)));
    let merges = Box::leak(Box::new(wireloom_interp::InterpMerges::new(module.clone())));
    // SAFETY: the tables and all their targets are leaked just above, so they live as long as the
    // process.
    let program = unsafe {
        let packets = (program.table_self(), program.packets());
        Program::from_table(program.table())?
            .with_merges(merges.this(), merges.entries())
            .with_packets(packets.0, packets.1)
    };
    Ok(program)
}
