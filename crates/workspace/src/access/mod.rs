//! Who may touch what: the rules ([`FilePolicy`]), the way from a path to a handle, and the refusals.

mod policy;
mod refusal;
mod resolve;

pub use policy::FilePolicy;
pub(crate) use policy::{RootRole, RootSet};
pub use refusal::{ReadOnlyReason, Refusal};
pub(crate) use resolve::{LastLink, ResolvedPath};
