//! The places outside of a program's own directory from which its interpreter loads modules. An agent that can write
//! there adds code to the program.

use super::named_code::is_one_of;
use std::path::{Path, PathBuf};

/// Node-like interpreters search for this directory of packages in every directory above a script.
const NODE_MODULES: &str = "node_modules";

/// Interpreters that load packages from [`NODE_MODULES`], and the files that tell them where modules are. Only the
/// nearest such file above the script counts.
const MODULE_LOADERS: [(&[&str], &[&str]); 3] = [
    (&["node", "nodejs"], &["package.json"]),
    (&["tsx", "ts-node", "bun"], &["package.json", "tsconfig.json"]),
    (&["deno"], &["package.json", "deno.json", "deno.jsonc"]),
];

const CODE_VARIABLES: [&str; 11] = [
    "PYTHONPATH",
    "PYTHONHOME",
    "NODE_PATH",
    "NODE_OPTIONS",
    "RUBYLIB",
    "RUBYOPT",
    "PERL5LIB",
    "PERL5OPT",
    "CLASSPATH",
    "LD_LIBRARY_PATH",
    "LD_PRELOAD",
];

/// The paths above a script, existing or not, from which its interpreter may load modules.
pub fn module_places(interpreter: &str, script: &Path) -> Vec<PathBuf> {
    let loader = MODULE_LOADERS.iter().find(|(names, _)| is_one_of(interpreter, names));
    let Some((_, files)) = loader else { return Vec::new() };
    let dirs = || script.ancestors().skip(usize::from(!script.is_dir()));
    let mut places: Vec<PathBuf> = dirs().map(|dir| dir.join(NODE_MODULES)).collect();
    for file in *files {
        for place in dirs().map(|dir| dir.join(file)) {
            let is_nearest = place.is_file();
            places.push(place);
            if is_nearest {
                break;
            }
        }
    }
    places
}

/// The words in the value of a variable that names code for an interpreter; none for any other variable.
pub fn code_in_variable<'a>(name: &str, value: &'a str) -> impl Iterator<Item = &'a str> + use<'a> {
    let is_code = CODE_VARIABLES.contains(&name);
    let parts = value.split([':', ' ', '=', ',']).filter(move |part| is_code && !part.is_empty());
    // `-rmodule` and `-Idirectory`, as in `RUBYOPT` and `PERL5OPT`.
    parts.filter_map(|part| match part.strip_prefix('-') {
        Some(option) => option.get(1..).filter(|path| path.contains('/')),
        None => Some(part),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_are_loaded_from_every_directory_above_and_the_nearest_package_counts() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        std::fs::create_dir_all(base.join("project/tools/src")).unwrap();
        std::fs::write(base.join("project/package.json"), "{}").unwrap();
        let script = base.join("project/tools/src/server.js");
        std::fs::write(&script, "").unwrap();
        let below = |interpreter: &str, script: &Path| {
            let places = module_places(interpreter, script).into_iter();
            places.filter_map(|place| Some(place.strip_prefix(&base).ok()?.to_owned())).collect::<Vec<_>>()
        };
        let node = [
            "project/tools/src/node_modules",
            "project/tools/node_modules",
            "project/node_modules",
            "node_modules",
            "project/tools/src/package.json",
            "project/tools/package.json",
            "project/package.json",
        ];
        assert_eq!(below("/usr/bin/node", &script), node.map(PathBuf::from));
        assert!(below("tsx", &script).contains(&PathBuf::from("project/tsconfig.json")));
        assert!(
            below("node", &base.join("project/tools")).contains(&PathBuf::from("project/tools/package.json"))
        );
        assert!(below("python3", &script).is_empty());
    }

    #[test]
    fn variables_that_load_code_name_it() {
        let paths = |name: &str, value: &'static str| code_in_variable(name, value).collect::<Vec<_>>();
        assert_eq!(paths("PYTHONPATH", "lib:/a/b:./c"), ["lib", "/a/b", "./c"]);
        assert_eq!(paths("NODE_OPTIONS", "--require=./hook.js --inspect"), ["./hook.js"]);
        assert_eq!(paths("RUBYOPT", "-r./hook.rb -W0"), ["./hook.rb"]);
        assert!(paths("MEMORY_FILE", "/a/memory.json").is_empty(), "data");
    }
}
