//! Which variables of our own environment are passed on to the processes that we start. The only list of them.

/// Passed on to every process, a model's commands included: what programs need to find each other, and how to write text.
/// A `*` at the end stands for any rest.
pub const COMMAND_VARIABLES: [&str; 8] =
    ["PATH", "LANG", "LANGUAGE", "LC_*", "TERM", "TZ", "COLORTERM", "NO_COLOR"];

/// Passed on besides to CLI agents and MCP servers, which work with the user's own files and over the network.
const PROGRAM_VARIABLES: [&str; 24] = [
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "EDITOR",
    "TMPDIR",
    "TMP",
    "TEMP",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_STATE_HOME",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NODE_EXTRA_CA_CERTS",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "NO_PROXY",
    "ALL_PROXY",
    "http_proxy",
    "https_proxy",
    "no_proxy",
    "all_proxy",
];

/// Whether a variable of our environment is passed on to every CLI agent and MCP server.
pub fn is_passed_to_programs(name: &str) -> bool {
    COMMAND_VARIABLES.iter().chain(&PROGRAM_VARIABLES).any(|pattern| variable_matches(pattern, name))
}

/// Whether a pattern means this variable: its name, or a beginning followed by `*`.
pub fn variable_matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |beginning| name.starts_with(beginning))
}

#[cfg(test)]
mod tests {
    use super::{COMMAND_VARIABLES, is_passed_to_programs, variable_matches};

    #[test]
    fn programs_get_what_commands_get_and_their_places_but_no_secrets() {
        assert!(COMMAND_VARIABLES.iter().all(|name| is_passed_to_programs(name)));
        assert!(["HOME", "LC_TIME", "all_proxy", "XDG_STATE_HOME"].into_iter().all(is_passed_to_programs));
        for name in ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "LC", "PATHS", ""] {
            assert!(!is_passed_to_programs(name), "{name}");
        }
    }

    #[test]
    fn a_pattern_means_one_name_or_every_name_with_its_beginning() {
        assert!(variable_matches("LC_*", "LC_ALL") && !variable_matches("LC_*", "LANG"));
        assert!(variable_matches("TERM", "TERM") && !variable_matches("TERM", "TERMINFO"));
    }
}
