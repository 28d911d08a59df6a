import { realpath } from 'node:fs/promises'
import path from 'node:path'
import { LinkError } from '../contract/client.ts'

/**
 * Where the log really is. An agent that is another program names the file, so nothing but a log of the state folder is shown to a
 * person. Throws a LinkError for all else.
 */
export async function ownLog(stateDir: string, file: string): Promise<string> {
  const [folder, log] = await Promise.all([realpath(stateDir), realpath(file).catch(() => undefined)])
  if (log === undefined) throw new LinkError('refused', `There is no log ${file} any more.`)
  if (!log.startsWith(`${folder}${path.sep}`) || path.extname(log) !== '.log') {
    throw new LinkError('refused', `${file} is no log of this app; nothing was opened.`)
  }
  return log
}
