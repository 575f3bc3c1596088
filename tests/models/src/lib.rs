//! Protocols of the runtime, checked in all their states. They are tests only.

#[cfg(test)]
mod cache_model;
#[cfg(test)]
mod packet_cache_model;
#[cfg(test)]
mod write_back_model;
#[cfg(test)]
mod write_back_programs;
