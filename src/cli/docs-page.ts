import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { partsOfPage, sectionOf } from '../contract/doctor.ts'

/** Written into the bundle by its build, by the names of files in docs/; absent when the source runs as it is. */
declare const METAL_AGENT_DOCS: Readonly<Record<string, string>>

/** What docs/ says there, such as `operations.md#states`. */
export async function docsPage(page: string): Promise<string> {
  const { file, anchor } = partsOfPage(page)
  const text =
    typeof METAL_AGENT_DOCS === 'object'
      ? (METAL_AGENT_DOCS[file] ?? '')
      : await readFile(path.join(import.meta.dirname, '../../docs', file), 'utf8')
  return sectionOf(text, anchor)
}
