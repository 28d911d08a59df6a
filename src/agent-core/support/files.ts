import { open, readFile, stat } from 'node:fs/promises'

export const hasCode = (error: unknown, code: string) =>
  error instanceof Error && 'code' in error && error.code === code

/** Undefined where there is no such file; empty where it has more bytes than it may. */
export async function readIfThere(file: string, maxBytes = Infinity): Promise<string | undefined> {
  try {
    if (maxBytes < Infinity && (await stat(file)).size > maxBytes) return ''
    return await readFile(file, 'utf8')
  } catch (error) {
    if (hasCode(error, 'ENOENT')) return undefined
    throw error
  }
}

/** Undefined where the text is not JSON; a schema decides about the rest. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch (error) {
    if (error instanceof SyntaxError) return undefined
    throw error
  }
}

/** Makes renames in a folder survive a power cut. */
export async function syncFolder(folder: string): Promise<void> {
  await using handle = await open(folder)
  await handle.sync()
}
