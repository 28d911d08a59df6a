import { stat } from 'node:fs/promises'
import type { Model } from '../kube/resources.ts'

/**
 * What a start depends on that no digest covers: the object behind the model, and the very files (such as a binary that was
 * upgraded in place). Where this changes, earlier failures say nothing about the next start.
 */
export async function startInputs(model: Model | undefined, files: readonly (string | undefined)[]): Promise<string> {
  const stamps = await Promise.all(files.map(stampOf))
  return JSON.stringify([model?.metadata.uid, model?.metadata.generation, ...stamps])
}

/** Links are followed: an upgrade by Homebrew changes where one points. */
async function stampOf(file: string | undefined): Promise<string> {
  if (file === undefined) return ''
  try {
    const { dev, ino, size, mtimeMs, mode } = await stat(file)
    return [file, dev, ino, size, mtimeMs, mode].join(' ')
  } catch (error) {
    return `${file} ${error instanceof Error && 'code' in error ? String(error.code) : String(error)}`
  }
}
