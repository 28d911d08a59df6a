import { execFileSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { z } from 'zod'
import { defineConfig } from 'vite'

const root = import.meta.dirname
const { version } = z.object({ version: z.string() }).parse(JSON.parse(readFileSync(`${root}/package.json`, 'utf8')))

/** The command `metal-agent` as one file that starts fast, beside chunks that are loaded when they are needed. */
export default defineConfig({
  root,
  define: {
    // Libraries in CommonJS that are bundled into a module still ask for it.
    __filename: 'import.meta.filename',
    __dirname: 'import.meta.dirname',
    METAL_AGENT_VERSION: JSON.stringify(version),
    METAL_AGENT_COMMIT: JSON.stringify(commit()),
    METAL_AGENT_BUILD_DATE: JSON.stringify(buildDate().toISOString()),
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
      // Nothing of its generated API is used; kept for side effects it does not have, it costs 18 MiB of memory.
      treeshake: { moduleSideEffects: (id) => !id.includes('@kubernetes/client-node/dist/') },
    },
  },
})

/** The same for every build of one source where SOURCE_DATE_EPOCH (seconds) is set. */
function buildDate(): Date {
  const epoch = process.env['SOURCE_DATE_EPOCH']
  if (epoch === undefined) return new Date()
  if (!/^\d+$/.test(epoch))
    throw new Error(`SOURCE_DATE_EPOCH must be whole seconds since 1970, not ${JSON.stringify(epoch)}.`)
  return new Date(Number(epoch) * 1_000)
}

/** A source archive has no git history. */
function commit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short=12', 'HEAD'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim()
  } catch {
    return 'unknown'
  }
}
