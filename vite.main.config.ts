import { defineConfig } from 'vite'
import { buildDefines } from './tasks/build-info.ts'
import { workerTexts } from './tasks/worker-texts.ts'

const root = import.meta.dirname

/** The main process of the app, beside chunks that are loaded when they are needed. */
export default defineConfig({
  root,
  plugins: [workerTexts()],
  define: {
    // Libraries in CommonJS that are bundled into a module still ask for it.
    __filename: 'import.meta.filename',
    __dirname: 'import.meta.dirname',
    ...buildDefines(),
  },
  ssr: { target: 'node', noExternal: true, external: ['electron'] },
  build: {
    ssr: 'src/main/app.ts',
    // The texts of the workers.
    ssrEmitAssets: true,
    target: 'node24',
    outDir: 'out/main',
    emptyOutDir: true,
    license: { fileName: 'main.licences.json' },
    minify: true,
    reportCompressedSize: false,
    // Loaded from this disk, not over a network.
    chunkSizeWarningLimit: 2_000,
    rolldownOptions: {
      output: { entryFileNames: 'main.js', chunkFileNames: 'chunks/[name]-[hash].js' },
    },
  },
})
