import { defineConfig } from 'vite'
import { asciiSource } from './tasks/ascii-source.ts'
import { buildDefines } from './tasks/build-info.ts'
import { docsDefine } from './tasks/docs-texts.ts'
import { requiredBuiltins } from './tasks/required-builtins.ts'
import { workerFiles } from './tasks/worker-files.ts'

const root = import.meta.dirname

/** The command `metal-agent` as one file that starts fast, beside chunks that are loaded when they are needed. */
export default defineConfig({
  root,
  plugins: [requiredBuiltins(), workerFiles(), asciiSource()],
  define: {
    // Libraries in CommonJS that are bundled into a module still ask for it.
    __filename: 'import.meta.filename',
    __dirname: 'import.meta.dirname',
    ...buildDefines(),
    ...docsDefine(),
  },
  ssr: { target: 'node', noExternal: true },
  build: {
    ssr: 'src/cli/metal-agent.ts',
    target: 'node24',
    outDir: 'out/cli',
    emptyOutDir: true,
    minify: true,
    reportCompressedSize: false,
    rolldownOptions: {
      output: { entryFileNames: 'metal-agent.js', chunkFileNames: 'chunks/[name]-[hash].js' },
    },
  },
})
