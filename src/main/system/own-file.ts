import type { z } from 'zod'
import { parseJson, readIfThere } from '../../agent-core/util/files.ts'
import { messageOf } from '../../agent-core/util/message-of.ts'
import { machineWords } from '../words.ts'

/** A larger file is not ours. */
const maxBytes = 100_000

export type OwnFile<T> =
  /** `keys`: those that stand in the file, without what defaults add. */
  | { readonly ok: true; readonly value: T; readonly keys: readonly string[] }
  | { readonly ok: false; readonly file: string; readonly message: string }

/** A file that only the app reads; one that is not there is an empty one. Never throws: whatever is wrong with it is a sentence. */
export async function readOwnFile<T>(file: string, what: string, schema: z.ZodType<T>): Promise<OwnFile<T>> {
  const unusable = (why: string): OwnFile<T> => ({
    ok: false,
    file,
    message: machineWords.file(what, file, why),
  })
  try {
    const text = await readIfThere(file, maxBytes)
    const content = text === undefined ? {} : parseJson(text)
    const parsed = schema.safeParse(content)
    if (!parsed.success) return unusable(whatIsWrong(parsed.error))
    return { ok: true, value: parsed.data, keys: Object.keys(Object(content) as object) }
  } catch (error) {
    return unusable(messageOf(error))
  }
}

function whatIsWrong({ issues: [issue] }: z.ZodError): string {
  const where = issue?.path.join('.') ?? ''
  const why = issue?.message ?? machineWords.unusable
  return where === '' ? why : machineWords.fileKey(where, why)
}
