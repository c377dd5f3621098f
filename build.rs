//! BPF objects: the shim of scx_rustland_core (written and compiled by its own builder), and ours.

use anyhow::{Context, Result};
use libbpf_cargo::SkeletonBuilder;
use scx_cargo::BpfBuilder;
use std::path::PathBuf;
use std::process::Command;

fn main() -> Result<()> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);

    scx_rustland_core::RustLandBuilder::new()?.build()?;

    // The shim's builder has unpacked vmlinux.h and the scx headers into OUT_DIR; ours use the same ones.
    // Which clang: see .cargo/config.toml.
    let clang = std::env::var("BPF_CLANG").unwrap_or_else(|_| "clang".into());
    BpfBuilder::new()?;
    let headers = out.join("scx_utils-bpf_h");
    let arch = match std::env::var("CARGO_CFG_TARGET_ARCH")?.as_str() {
        "x86_64" => "x86",
        "aarch64" => "arm64",
        "powerpc64" => "powerpc",
        "riscv64" => "riscv",
        "s390x" => "s390",
        other => anyhow::bail!("no BPF target for {other}"),
    }
    .to_owned();
    let include = |p: PathBuf| format!("-I{}", p.display());
    for name in ["eyes", "waits"] {
        let source = format!("src/bpf/{name}.bpf.c");
        SkeletonBuilder::new()
            .source(&source)
            .obj(out.join(format!("{name}.bpf.o")))
            .clang(&clang)
            .clang_args([
                format!("-D__TARGET_ARCH_{arch}"),
                "-mcpu=v3".into(),
                include(headers.join("arch").join(&arch)),
                include(headers.clone()),
                include(headers.join("bpf-compat")),
            ])
            .build_and_generate(out.join(format!("{name}_skel.rs")))
            .context(source)?;
    }

    for f in ["src/bpf", "build.rs"] {
        println!("cargo:rerun-if-changed={f}");
    }
    println!("cargo:rustc-env=SOFT_DOMAIN_COMMIT={}", commit());
    println!("cargo:rerun-if-changed=.git/HEAD");
    println!("cargo:rerun-if-changed=.git/refs/heads");
    Ok(())
}

/// Short commit id, for the start-up line; a build outside a checkout says so.
fn commit() -> String {
    Command::new("git")
        .args(["rev-parse", "--short=10", "HEAD"])
        .output()
        .ok()
        .filter(|o| o.status.success())
        .and_then(|o| String::from_utf8(o.stdout).ok())
        .map_or_else(|| "no commit".into(), |s| s.trim().to_owned())
}
