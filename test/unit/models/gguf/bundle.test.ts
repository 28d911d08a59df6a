import { execa } from 'execa'
import path from 'node:path'
import { expect, test } from 'vitest'
import { writeLlamaGguf } from '../../../support/gguf-writer.ts'
import { temporaryFolder } from '../../../support/temporary-folder.ts'

const root = path.join(import.meta.dirname, '../../../..')

test.each(['vite.config.ts', 'vite.main.config.ts'])(
  'the worker thread that reads headers runs from a bundle of %s as it does from source',
  async (config) => {
    await using folder = await temporaryFolder()
    const outDir = path.join(folder.dir, 'bundle')
    const entry = path.join(import.meta.dirname, 'print-header.ts')
    const options = { cwd: root, preferLocal: true, localDir: root } as const
    await execa(
      'vite',
      ['build', '--config', config, '--ssr', entry, '--logLevel', 'warn', '--outDir', outDir],
      options,
    )
    const model = path.join(folder.dir, 'model.gguf')
    await writeLlamaGguf(model)
    const main = path.join(outDir, config === 'vite.config.ts' ? 'metal-agent.js' : 'main.js')
    const runs = [main, entry].map(
      async (script) => (await execa(process.execPath, [script, model], { cwd: folder.dir })).stdout,
    )
    expect(await Promise.all(runs)).toEqual(['llama F32 287', 'llama F32 287'])
  },
  60_000,
)
