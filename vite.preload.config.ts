import { defineConfig } from 'vite'

const root = import.meta.dirname

/** A sandboxed preload script is one file of CommonJS, and may require nothing but Electron. */
export default defineConfig({
  root,
  ssr: { target: 'node', noExternal: true, external: ['electron'] },
  build: {
    ssr: 'src/main/preload/preload.ts',
    target: 'chrome150',
    outDir: 'out/main',
    // Beside the main process, which is built before it.
    emptyOutDir: false,
    license: { fileName: 'preload.licences.json' },
    minify: true,
    reportCompressedSize: false,
    rolldownOptions: { output: { format: 'cjs', entryFileNames: 'preload.cjs' } },
  },
})
