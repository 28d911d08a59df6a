import { temporaryFolder } from '../temporary-folder.ts'

/** What one process of the run compiles, or strips of its types, all others load: it is half of what a short-lived one would do. */
export default async function setup(): Promise<(() => Promise<void>) | undefined> {
  if (process.env['NODE_COMPILE_CACHE'] !== undefined) return undefined
  const folder = await temporaryFolder()
  process.env['NODE_COMPILE_CACHE'] = folder.dir
  return async () => {
    await folder[Symbol.asyncDispose]()
  }
}
