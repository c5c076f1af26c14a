//! Which parts of a config may use which variables. Variables that somebody else may have set are used only for API
//! keys and other secrets, never for an endpoint, path, program or argument.

use althing_protocol::names_only_a_secret;

pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Lookups of variables.
#[derive(Clone, Copy)]
pub struct Variables<'a> {
    /// The user's own variables.
    pub own: &'a dyn Fn(&str) -> Option<String>,
    /// The user's own variables, and those that somebody else may have set.
    pub for_secrets: &'a dyn Fn(&str) -> Option<String>,
}

impl<'a> Variables<'a> {
    /// Treats all variables as the user's own.
    pub fn all_own(own: &'a dyn Fn(&str) -> Option<String>) -> Self {
        Self { own, for_secrets: own }
    }

    pub(crate) fn at(&self, place: VariablePlace) -> Lookup<'a> {
        match place {
            VariablePlace::Secret => self.for_secrets,
            VariablePlace::NamedValues | VariablePlace::Other => self.own,
        }
    }
}

impl std::fmt::Debug for Variables<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Variables").finish_non_exhaustive()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum VariablePlace {
    /// A value that is meant to be a secret.
    Secret,
    /// A map of variables or headers; the name of each entry decides whether its value is a secret.
    NamedValues,
    Other,
}

impl VariablePlace {
    /// The place of the value of `key`, which is in a map at this place.
    pub(crate) fn of(self, key: &str) -> Self {
        match key {
            _ if self == Self::NamedValues && names_only_a_secret(key) => Self::Secret,
            _ if self == Self::NamedValues => Self::Other,
            "api_key" => Self::Secret,
            "env" | "headers" | "default_headers" | "extra_headers" => Self::NamedValues,
            _ => Self::Other,
        }
    }
}
