//! The places outside of a program's own directory from which its interpreter loads modules. An agent that can write
//! there adds code to the program.

use super::named_code::is_one_of;
use std::path::{Path, PathBuf};

/// The directory of installed packages, which these interpreters search for in every directory above a script.
const NODE_MODULES: &str = "node_modules";

/// Interpreters that load packages from [`NODE_MODULES`], and the files that tell them where modules are. Of such files,
/// an interpreter uses the one that is nearest to the script.
const MODULE_LOADERS: [(&[&str], &[&str]); 3] = [
    (&["node", "nodejs"], &["package.json"]),
    (&["tsx", "ts-node", "bun"], &["package.json", "tsconfig.json"]),
    (&["deno"], &["package.json", "deno.json", "deno.jsonc"]),
];

/// Environment variables that name directories and files from which an interpreter loads code.
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

/// The places above a script, existing or not, from which its interpreter may load modules or learn where they are.
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

/// The paths, and other words, in the value of an environment variable of a program, if the program's interpreter loads
/// code from the files and directories that the variable names.
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
