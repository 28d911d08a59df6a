import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { execa } from 'execa'
import { z } from 'zod'
import { writeLlamaGguf } from '../test/support/gguf-writer.ts'
import { installAgent } from './installed-agent.ts'
import type { Extent, Row } from './row.ts'

const tokens = 150_000
const runs = z.array(z.number())

/** From the call to the header, bundled and started as the agent is. */
export async function modelHeaders({ headerRuns }: Extent): Promise<Row[]> {
  const folder = await mkdtemp(join(tmpdir(), 'metalbar-headers-'))
  await using opened = new AsyncDisposableStack()
  opened.defer(() => rm(folder, { recursive: true, force: true }))
  const file = join(folder, 'model.gguf')
  await writeLlamaGguf(file, { vocabulary: tokens, weights: 'hole', metadata: { 'tokenizer.ggml.merges': merges() } })
  const launcher = await installAgent(folder, { entry: join(import.meta.dirname, 'time-header.ts') })
  const { stdout } = await execa(launcher, [file, String(headerRuns)])
  const measured = runs.parse(JSON.parse(stdout))
  const what = `header of a vocabulary of ${tokens.toLocaleString('en')} tokens`
  return [
    {
      what,
      unit: 'ms',
      values: measured,
      goal: 50,
      note: `the first took ${(measured[0] ?? 0).toFixed(0)} ms`,
    },
  ]
}

/** As many as tokens, and as long as in models of that size. */
function merges(): string[] {
  return Array.from({ length: tokens }, (_, index) => `Ġmer ge${index}`)
}
