//! With the feature `cuda`, compiles the kernels by NVIDIA's compiler into one image for every kind of device that it knows.

#![allow(clippy::print_stdout)] // which is how cargo is told

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=src/products.cu");
    for variable in ["NVCC", "CUDA_HOME", "CUDA_PATH", "PATH"] {
        println!("cargo::rerun-if-env-changed={variable}");
    }
    if env::var_os("CARGO_FEATURE_CUDA").is_none() {
        return;
    }
    match compile(&compiler()) {
        Ok(release) => println!("cargo::rustc-env=NVCC_RELEASE={release}"),
        Err(message) => println!("cargo::error={}", message.replace('\n', " ")),
    }
}

/// `NVCC`, or the one of the toolkit at `CUDA_HOME` or `CUDA_PATH`, or the one on the path, or that of the usual place.
fn compiler() -> PathBuf {
    if let Some(nvcc) = env::var_os("NVCC") {
        return nvcc.into();
    }
    let of_toolkit = |home: PathBuf| home.join("bin").join("nvcc");
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(env::var_os).map(PathBuf::from);
    let on_path = env::var_os("PATH").into_iter().flat_map(|path| env::split_paths(&path).collect::<Vec<_>>());
    homes
        .map(of_toolkit)
        .chain(on_path.map(|directory| directory.join("nvcc")))
        .chain([of_toolkit("/usr/local/cuda".into())])
        .find(|nvcc| nvcc.is_file())
        .unwrap_or_else(|| "nvcc".into())
}

/// Writes the image; gives the toolkit's release, as `13.5`.
fn compile(nvcc: &Path) -> Result<String, String> {
    let version = run(Command::new(nvcc).arg("--version"), nvcc)?;
    let release = version.split("release ").nth(1).and_then(|rest| rest.split(',').next());
    let release = release.ok_or_else(|| format!("{} --version names no release: {version}", nvcc.display()))?;
    let image = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("products.fatbin");
    let arguments = ["-std=c++17", "-O3", "-arch=all-major", "-fatbin", "src/products.cu", "-o"];
    run(Command::new(nvcc).args(arguments).arg(image), nvcc)?;
    Ok(release.to_string())
}

fn run(command: &mut Command, nvcc: &Path) -> Result<String, String> {
    let output = command.output().map_err(|error| {
        format!(
            "the feature `cuda` needs NVIDIA's compiler, and {} cannot be run ({error}): install the CUDA toolkit (11.5 or \
             newer), and put nvcc on the PATH or name the toolkit's directory in CUDA_HOME, or the compiler in NVCC",
            nvcc.display()
        )
    })?;
    let [printed, complaints] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.status.success() { Ok(printed) } else { Err(format!("{} failed: {complaints}{printed}", nvcc.display())) }
}
