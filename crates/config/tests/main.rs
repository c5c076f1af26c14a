//! The tests of this crate, in one binary; each file of `suite` covers one behavior.

#![expect(clippy::expect_used, clippy::indexing_slicing, reason = "tests fail by panicking")]

mod suite {
    mod abilities;
    mod backends;
    mod docs;
    mod dotenv;
    mod env;
    mod every_file;
    mod hostile;
    mod interactive;
    mod keys;
    mod massgen;
    mod mcp_servers;
    mod paths;
    mod random;
    mod render;
    mod resolve;
    mod schema;
    mod secrets;
    mod starter;
    mod support;
    mod supported;
    mod syntax;
    mod tools;
    mod trust;
    mod wires;
    mod workflow;
    mod workflow_problems;
}
