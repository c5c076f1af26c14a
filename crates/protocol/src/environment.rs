//! The environment variables that agents' commands, CLI agents and MCP servers inherit from Althing.

/// The variables that agents' commands, CLI agents and MCP servers inherit. A trailing `*` matches any suffix.
pub const COMMAND_VARIABLES: [&str; 8] =
    ["PATH", "LANG", "LANGUAGE", "LC_*", "TERM", "TZ", "COLORTERM", "NO_COLOR"];

/// CLI agents and MCP servers use the user's files and the network, so they also inherit these.
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

/// Whether every CLI agent and MCP server inherits this variable.
pub fn is_passed_to_programs(name: &str) -> bool {
    COMMAND_VARIABLES.iter().chain(&PROGRAM_VARIABLES).any(|pattern| variable_matches(pattern, name))
}

/// Whether a pattern (an exact name, or a prefix followed by `*`) matches this variable.
pub fn variable_matches(pattern: &str, name: &str) -> bool {
    pattern.strip_suffix('*').map_or(pattern == name, |prefix| name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::{COMMAND_VARIABLES, is_passed_to_programs, variable_matches};

    #[test]
    fn cli_agents_and_servers_inherit_the_variables_of_commands_and_directories_but_no_secrets() {
        assert!(COMMAND_VARIABLES.iter().all(|name| is_passed_to_programs(name)));
        assert!(["HOME", "LC_TIME", "all_proxy", "XDG_STATE_HOME"].into_iter().all(is_passed_to_programs));
        for name in ["ANTHROPIC_API_KEY", "AWS_SECRET_ACCESS_KEY", "LD_PRELOAD", "LC", "PATHS", ""] {
            assert!(!is_passed_to_programs(name), "{name}");
        }
    }

    #[test]
    fn a_pattern_matches_one_name_or_every_name_with_its_prefix() {
        assert!(variable_matches("LC_*", "LC_ALL") && !variable_matches("LC_*", "LANG"));
        assert!(variable_matches("TERM", "TERM") && !variable_matches("TERM", "TERMINFO"));
    }
}
