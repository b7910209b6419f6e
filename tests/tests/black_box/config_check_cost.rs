//! The cost of a check of a configuration, in instructions of the processor: each site costs as
//! much as the one before it, independent of the load of the machine.

use pinion_tests::binary::pinion;
use pinion_tests::external_programs::{output, program};
use pinion_tests::temporary_folder::Folder;
use std::fmt::Write as _;

/// The numbers of sites by which the configurations differ; if `PINION_LONG` is set, the largest
/// has a thousand.
const STEPS: [usize; 2] = [40, 250];

/// Returns the instructions of a check of this many sites.
fn instructions(sites: usize) -> u64 {
    let folder = Folder::new("check-cost");
    let mut configuration = String::new();
    for number in 0..sites {
        folder.write(format!("{number:04}/index.html"), "home");
        writeln!(
            configuration,
            "[[site]]\nhosts = [\"h{number:04}.test\"]\npath = \"{number:04}\""
        )
        .expect("memory");
    }
    folder.write("pinion.toml", configuration);
    let mut valgrind = program("valgrind", "valgrind");
    // The test runner adds folders to the search path of libraries.
    valgrind.env_remove("LD_LIBRARY_PATH");
    valgrind.args(["--tool=callgrind", "--callgrind-out-file=/dev/null"]);
    let ended = output(valgrind.arg(pinion()).arg("check").arg(folder.join("pinion.toml")));
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let counted = said.lines().find_map(|line| line.split_once("Collected : "));
    let (_, counted) = counted.unwrap_or_else(|| panic!("no count: {said}"));
    counted.trim().parse().expect("a count")
}

#[test]
fn a_check_is_linear_in_the_number_of_sites() {
    let is_long = std::env::var_os("PINION_LONG").is_some();
    let step = STEPS[usize::from(is_long)];
    // A small, a larger and a large configuration: one step more, and three steps more.
    let sites = [step, 2 * step, 4 * step];
    let [small, larger, large] = sites.map(instructions);
    let (one_step, three_steps) = (larger - small, large - small);
    eprintln!("{small}, {larger}, {large} instructions for {sites:?} sites");
    // With quadratic cost the ratio would be five.
    assert!(
        three_steps <= one_step * 7 / 2,
        "{one_step} more instructions for {step} more sites, and {three_steps} for three times as \
         many"
    );
}
