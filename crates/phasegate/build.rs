//! Presses the files of the page, so that they take a third of the room in the program (browsers unfold them), and gives a
//! program with everything linked in a fixed place.

use std::path::Path;
use std::{env, fs};

fn main() {
    let out = env::var("OUT_DIR").expect("cargo sets it");
    for name in ["index.html", "page.css", "page.js"] {
        let path = format!("src/web/page/{name}");
        println!("cargo::rerun-if-changed={path}");
        let text = fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
        let pressed = miniz_oxide::deflate::compress_to_vec_zlib(&text, 10);
        let place = Path::new(&out).join(name);
        fs::write(&place, pressed).unwrap_or_else(|error| panic!("{}: {error}", place.display()));
    }
    // A program that can be anywhere first moves its 17,000 pointers, at every start: that was 60 % of what a hook did in a
    // folder without a project. See docs/decisions/0006.
    let target = |what: &str| env::var(format!("CARGO_CFG_TARGET_{what}")).unwrap_or_default();
    let is_static = target("FEATURE").split(',').any(|feature| feature == "crt-static");
    if (target("OS").as_str(), target("ENV").as_str()) == ("linux", "gnu") && is_static {
        println!("cargo::rustc-link-arg-bins=-static");
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
