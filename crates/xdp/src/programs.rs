//! Programs of an object, and their way through the verifier.

use crate::error::{asks_for_log, missing, of_loading, of_program};
use crate::Error;
use aya::programs::{RawTracePoint, Xdp};
use aya::{Ebpf, EbpfLoader, VerifierLogLevel};
use wireloom_codegen_c::xdp::XdpSource;

/// Loads all programs. `fronted`: those in front of others, too; the result has the reason for
/// which they are not there. The verifier's words of each instruction are asked for only to name a
/// place: it takes seconds to write those of a long program.
pub(crate) fn load_programs(
    loader: &mut EbpfLoader,
    bytes: &[u8],
    source: &XdpSource,
    fronted: bool,
) -> Result<(Ebpf, Option<Error>), Error> {
    let mut load = |level| {
        let mut ebpf = loader.verifier_log_level(level).load(bytes).map_err(of_loading)?;
        source.names().try_for_each(|name| program(&mut ebpf, name)?.load().map_err(|e| of_program(name, e)))?;
        // Without it the hook works, and `Object::count_unsent` says that it is not there.
        counter(&mut ebpf).and_then(|p| p.load().ok());
        let fronts = source.programs.iter().filter(|p| fronted && p.finished).map(|p| p.front());
        let failure = fronts.map(|name| load_front(&mut ebpf, &name)).find_map(Result::err);
        Ok((ebpf, failure))
    };
    match load(if asks_for_log() { VerifierLogLevel::default() } else { VerifierLogLevel::STATS }) {
        Err(Error::Refused { .. }) if !asks_for_log() => load(VerifierLogLevel::default()),
        loaded => loaded,
    }
}

fn load_front(ebpf: &mut Ebpf, name: &str) -> Result<(), Error> {
    program(ebpf, name)?.load().map_err(|e| of_program(name, e))
}

pub(crate) fn program<'e>(ebpf: &'e mut Ebpf, name: &str) -> Result<&'e mut Xdp, Error> {
    ebpf.program_mut(name).and_then(|p| p.try_into().ok()).ok_or_else(|| missing(name))
}

/// The program that counts frames which an interface does not take, of objects that redirect some.
pub(crate) fn counter(ebpf: &mut Ebpf) -> Option<&mut RawTracePoint> {
    ebpf.program_mut("wl_unsent").and_then(|p| p.try_into().ok())
}
