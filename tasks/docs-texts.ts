import { readFileSync } from 'node:fs'
import path from 'node:path'

/** The pages of docs/ that an answer of the doctor may name. */
export const docsOfDoctor = [
  'cluster.md',
  'install.md',
  'memory.md',
  'models.md',
  'operations.md',
  'power.md',
  'reaching-models.md',
  'runtimes.md',
  'settings.md',
  'troubleshooting.md',
] as const

/** What `src/cli/docs-page.ts` is told by a build. */
export function docsDefine(): Record<string, string> {
  const folder = path.join(import.meta.dirname, '../docs')
  const texts = docsOfDoctor.map((name) => [name, readFileSync(path.join(folder, name), 'utf8')])
  return { METAL_AGENT_DOCS: JSON.stringify(Object.fromEntries(texts)) }
}
