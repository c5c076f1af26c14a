//! The hidden modes as a program of their own, for the tests: in the product `althing` itself is re-executed.

use std::process::ExitCode;

fn main() -> ExitCode {
    althing_runner::hidden_main(std::env::args_os()).unwrap_or(ExitCode::FAILURE)
}
