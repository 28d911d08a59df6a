import { readFile } from 'node:fs/promises'
import { z } from 'zod'

/** One package of which at least one module is in a bundle, as Vite's `build.license` writes it. */
const entry = z.object({
  name: z.string(),
  version: z.string(),
  identifier: z.string().optional(),
  text: z.string().optional(),
})

export type BundledPackage = z.infer<typeof entry>

/** The packages of several bundles, each once, in the order of their names. */
export async function bundledPackages(files: readonly string[]): Promise<BundledPackage[]> {
  const found = new Map<string, BundledPackage>()
  for (const file of files) {
    for (const one of z.array(entry).parse(JSON.parse(await readFile(file, 'utf8')))) {
      found.set(`${one.name}@${one.version}`, one)
    }
  }
  return [...found.keys()].sort().flatMap((key) => found.get(key) ?? [])
}
