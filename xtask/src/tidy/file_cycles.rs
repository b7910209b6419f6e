//! The dependencies between the files of a crate. Files that depend on each other in a circle can
//! only be understood together, so the largest such circle is a measure of a crate's structure.

use super::Rule;
use super::project::{Finding, Project};
use std::collections::{BTreeMap, BTreeSet};

/// The crate whose circles are bounded: its files call one another most.
const BOUNDED: &str = "engine";

/// The number of files of a crate that may depend on each other. This many can still be read
/// together.
const CIRCLE_FILES_MAX: usize = 8;

pub(super) const CYCLES: Rule = Rule { name: "cycles", check: large_circles, canary: large_circle };

/// A module by its path below the crate: `["http2", "pump"]`.
type Module = Vec<String>;

/// Which modules each module names.
type Graph = BTreeMap<Module, BTreeSet<Module>>;

/// The modules of a crate of which each depends on all others, directly or through them.
pub(super) struct Circle {
    /// The folder of the crate: `engine`.
    pub(super) krate: String,
    /// Paths of the modules: `http2::pump`. One alone is in no circle.
    pub(super) modules: Vec<String>,
}

/// Finds the largest circle of each crate, the largest of all first.
pub(super) fn largest(project: &Project) -> Vec<Circle> {
    let mut graphs: BTreeMap<&str, Graph> = BTreeMap::new();
    let files: Vec<_> = project
        .rust()
        .filter(|(file, _)| !file.is_test())
        .filter_map(|(file, source)| {
            let (krate, path) = file.path.strip_prefix("crates/")?.split_once("/src/")?;
            Some((krate, module(path), source))
        })
        .collect();
    for (krate, module, _) in &files {
        graphs.entry(krate).or_default().insert(module.clone(), BTreeSet::new());
    }
    for (krate, module, source) in &files {
        let Some(graph) = graphs.get_mut(krate) else { continue };
        let named: BTreeSet<Module> = references(source, module)
            .iter()
            .filter_map(|path| longest_known(graph, path))
            .filter(|named| named != module)
            .collect();
        graph.insert(module.clone(), named);
    }
    let circle = |(krate, graph): (&str, Graph)| {
        let modules = largest_circle(&graph);
        let modules = modules.iter().map(|module| module.join("::")).collect();
        Circle { krate: krate.to_owned(), modules }
    };
    let mut circles: Vec<Circle> = graphs.into_iter().map(circle).collect();
    circles.sort_by_key(|circle| std::cmp::Reverse(circle.modules.len()));
    circles
}

fn large_circles(project: &Project) -> Vec<Finding> {
    let mut circles = largest(project).into_iter();
    let is_large =
        |circle: &Circle| circle.krate == BOUNDED && circle.modules.len() > CIRCLE_FILES_MAX;
    let Some(circle) = circles.find(is_large) else { return Vec::new() };
    let map = format!("crates/{BOUNDED}/src/lib.rs");
    let Some(file) = project.files.iter().find(|file| file.path == map) else { return Vec::new() };
    let message = format!(
        "{} files depend on each other, more than {CIRCLE_FILES_MAX}: {}",
        circle.modules.len(),
        circle.modules.join(", ")
    );
    vec![Finding::new(file, 1, message)]
}

fn large_circle() -> Project {
    let names: Vec<char> = ('a'..='z').take(CIRCLE_FILES_MAX + 1).collect();
    let path = |name: &char| format!("crates/{BOUNDED}/src/{name}.rs");
    let map = names.iter().map(|name| format!("mod {name};\n")).collect::<String>();
    let next = names.iter().cycle().skip(1);
    let file = |next: &char| format!("//! A part.\n\nuse crate::{next};\n");
    let mut files: Vec<_> =
        names.iter().zip(next).map(|(one, next)| (path(one), file(next))).collect();
    let listed = names.iter().map(|name| format!("//! | `{name}` |\n")).collect::<String>();
    files.push((format!("crates/{BOUNDED}/src/lib.rs"), format!("{listed}\n{map}")));
    let files: Vec<_> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    Project::of(&files)
}

/// Returns the module of a file below `src`.
fn module(path: &str) -> Module {
    let path = path.strip_suffix(".rs").unwrap_or(path);
    let path = path.strip_suffix("/mod").unwrap_or(path);
    match path {
        "lib" | "main" => Module::new(),
        path => path.split('/').map(str::to_owned).collect(),
    }
}

/// Returns the paths that code names with `crate::`, `super::` or `self::`, from the root of the
/// crate.
fn references(source: &super::rust_source::Source, module: &Module) -> Vec<Module> {
    let mut found = Vec::new();
    for start in ["crate", "super", "self"] {
        for at in source.words(start).filter(|at| !source.is_test(*at)) {
            let Some(rest) = source.code[at + start.len()..].strip_prefix("::") else { continue };
            let parent = module.split_last().map_or(&[][..], |(_, parent)| parent);
            let base = match start {
                "crate" => &[][..],
                "super" => parent,
                _ => module,
            };
            found.extend(paths(base.to_vec(), rest));
        }
    }
    found
}

/// Returns the paths that follow, each of a list in braces.
fn paths(mut base: Module, rest: &str) -> Vec<Module> {
    let word_end = |text: &str| text.find(|c: char| !c.is_alphanumeric() && c != '_');
    let mut rest = rest;
    loop {
        if let Some(list) = rest.strip_prefix('{') {
            let list = list.split(['}', ';']).next().unwrap_or_default();
            let of = |item: &str| {
                let name = item.trim().split([':', ' ']).next().unwrap_or_default().to_owned();
                base.iter().cloned().chain([name]).collect()
            };
            return list.split(',').map(of).collect();
        }
        let (name, behind) = rest.split_at(word_end(rest).unwrap_or(rest.len()));
        match name {
            "super" => drop(base.pop()),
            name => base.push(name.to_owned()),
        }
        match behind.strip_prefix("::") {
            Some(more) => rest = more,
            None => return vec![base],
        }
    }
}

/// Returns the module that a path leads to: its longest beginning that is a module.
fn longest_known(graph: &Graph, path: &Module) -> Option<Module> {
    let fronts = (1..=path.len()).rev().map(|length| path[..length].to_vec());
    fronts.into_iter().find(|front| graph.contains_key(front))
}

/// Returns the largest set of modules that reach one another.
fn largest_circle(graph: &Graph) -> Vec<&Module> {
    let reached: BTreeMap<&Module, BTreeSet<&Module>> =
        graph.keys().map(|module| (module, reach(graph, module))).collect();
    let circle_of = |module: &Module| -> Vec<&Module> {
        let others = reached.iter().filter(|(other, reaches)| {
            **other == module || reaches.contains(module) && reached[module].contains(*other)
        });
        others.map(|(other, _)| *other).collect()
    };
    graph.keys().map(circle_of).max_by_key(Vec::len).unwrap_or_default()
}

/// Returns all modules that a module depends on.
fn reach<'g>(graph: &'g Graph, from: &Module) -> BTreeSet<&'g Module> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&Module> = graph[from].iter().collect();
    while let Some(module) = open.pop() {
        if reached.insert(module) {
            open.extend(&graph[module]);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cycle_is_found_through_every_kind_of_path() {
        let project = Project::of(&[
            ("crates/x/src/lib.rs", "mod a;\nmod b;\nmod c;\nmod d;\n"),
            ("crates/x/src/a.rs", "mod under;\nuse crate::{b, d};\n"),
            ("crates/x/src/a/under.rs", "use super::super::c::Item;\n"),
            ("crates/x/src/b.rs", "use crate::a::under::Deep;\n"),
            ("crates/x/src/c.rs", "use crate::a::Top;\n// use crate::d;\n"),
            ("crates/x/src/d.rs", "#[cfg(test)]\nmod tests {\n    use crate::a::Top;\n}\n"),
        ]);
        let [circle] = &largest(&project)[..] else { panic!("one crate") };
        assert_eq!(
            (circle.krate.as_str(), circle.modules.join(" ")),
            ("x", "a a::under b c".into())
        );
    }
}
