//! File access control, which enforces the permissions that an agent has for paths: the rules ([`FilePolicy`]), path
//! resolution, and the errors for refused access.

mod policy;
mod refusal;
mod resolve;

pub use policy::FilePolicy;
pub(crate) use policy::{RootRole, RootSet, makes_git_dir};
pub use refusal::{ReadOnlyReason, Refusal};
pub(crate) use resolve::{LastLink, ResolvedPath};
