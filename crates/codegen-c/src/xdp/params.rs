//! Parameters that are no part of the programs' text: the loader sets them, before the verifier
//! looks.

use super::XdpSource;
use crate::gen::Gen;
use wireloom_ir::*;

/// Words of a parameter that the loader sets: so many at most.
pub const PARAM_WORDS: usize = 3;

fn param_words(ty: desc::ParamType) -> usize {
    match ty {
        desc::ParamType::Endpoint => PARAM_WORDS,
        desc::ParamType::Bool
        | desc::ParamType::UInt(_)
        | desc::ParamType::Duration
        | desc::ParamType::Bytes(_)
        | desc::ParamType::Endpoints(_)
        | desc::ParamType::Texts(..) => 1,
    }
}

impl Gen<'_> {
    /// The value of a parameter, which the loader sets.
    pub(crate) fn xdp_param(&mut self, p: ParamId, ty: TyId) -> String {
        self.xdp_params.insert(p);
        let at = XdpSource::param(p);
        match self.m.ty(ty) {
            Ty::Bool => format!("({at}[0] != 0)"),
            Ty::UInt(_) | Ty::Int(_) => self.fit(format!("{at}[0]"), ty),
            Ty::Endpoint => format!(
                "((wl_endpoint){{.w = {{{at}[0], {at}[1]}}, .port = (uint16_t){at}[2], .v4 = (uint16_t)({at}[2] >> 16)}})"
            ),
            // Placement gives the hook no parameters of other types.
            Ty::Unit
            | Ty::Ip
            | Ty::Bytes(_)
            | Ty::List(..)
            | Ty::Option(_)
            | Ty::Record(_)
            | Ty::Tuple(_)
            | Ty::Msg(_) => self.zero(ty),
        }
    }

    /// Those that were read, and their words.
    pub(super) fn xdp_params_of(&self) -> Vec<(ParamId, usize)> {
        self.xdp_params.iter().map(|p| (*p, param_words(self.m.params[p.index()].ty))).collect()
    }

    /// The constants that the loader sets.
    pub(super) fn xdp_param_places(&self) -> String {
        let place = |(p, words): (ParamId, usize)| {
            format!("volatile const uint64_t {}[{words}] SEC(\".rodata\") = {{0}};\n", XdpSource::param(p))
        };
        self.xdp_params_of().into_iter().map(place).collect()
    }
}
