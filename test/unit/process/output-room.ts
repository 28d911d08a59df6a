import { appendFile, readdir, stat } from 'node:fs/promises'
import { join } from 'node:path'
import type { LogFields, Logger } from '../../../src/agent-core/observability/logger.ts'
import { OutputLog } from '../../../src/agent-core/process/output-log.ts'
import type { OutputLimits } from '../../../src/agent-core/process/output-rotation.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const ignore = () => undefined

/** The output of one server in a folder of its own. */
export class OutputRoom implements AsyncDisposable {
  readonly file: string
  readonly log: OutputLog
  readonly warnings: { message: string; fields: LogFields | undefined }[] = []
  readonly #dispose: () => Promise<void>

  private constructor(folder: string, limits: OutputLimits, dispose: () => Promise<void>) {
    this.file = join(folder, 'a.log')
    const warn: Logger['warn'] = (message, fields) => void this.warnings.push({ message, fields })
    this.log = new OutputLog({ file: this.file, limits, log: { debug: ignore, info: ignore, warn, error: ignore } })
    this.#dispose = dispose
  }

  static async create(limits: OutputLimits, folder?: string): Promise<OutputRoom> {
    if (folder !== undefined) return new OutputRoom(folder, limits, () => Promise.resolve())
    const temporary = await temporaryFolder()
    return new OutputRoom(temporary.dir, limits, async () => temporary[Symbol.asyncDispose]())
  }

  write(text: string | Buffer): Promise<void> {
    return appendFile(this.file, text)
  }

  /** One look at whether it is too long. */
  async look(): Promise<void> {
    await this.log.bounded()[Symbol.asyncDispose]()
  }

  /** Sizes by name without the common beginning. */
  async sizes(): Promise<Record<string, number>> {
    const folder = join(this.file, '..')
    const names = (await readdir(folder)).toSorted()
    const sizes = names.map(async (name) => [name.replace('a.log', ''), (await stat(join(folder, name))).size] as const)
    return Object.fromEntries(await Promise.all(sizes))
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#dispose()
  }
}
