//! The modes of `reexec_main` as a separate executable, for the tests; the product re-executes `althing` itself.

use std::process::ExitCode;

fn main() -> ExitCode {
    althing_runner::reexec_main(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
