//! What the program can be told to do, one file each.

pub mod config;
pub mod resume;
pub mod run;
pub mod sessions;
