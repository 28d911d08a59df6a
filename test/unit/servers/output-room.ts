import { appendFile, readdir, stat } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { LogFields, Logger } from '../../../src/agent-core/observability/logger.ts'
import { runNumber, serverFolders, type RunFolder } from '../../../src/agent-core/servers/run-folder.ts'
import { ServiceOutput } from '../../../src/agent-core/servers/output.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const ignore = () => undefined

/** The output of one service, whose first run has begun, in a folder of its own. */
export class OutputRoom implements AsyncDisposable {
  readonly log: ServiceOutput
  readonly warnings: { message: string; fields: LogFields | undefined }[] = []
  readonly #folder: AsyncDisposable & { readonly dir: string }
  #run: RunFolder | undefined

  private constructor(folder: AsyncDisposable & { readonly dir: string }, limitBytes: number) {
    const warn: Logger['warn'] = (message, fields) => void this.warnings.push({ message, fields })
    this.log = new ServiceOutput({
      key: 'a/b',
      folders: serverFolders(folder.dir),
      limitBytes,
      log: { debug: ignore, info: ignore, warn, error: ignore },
      now: Date.now,
      newest: () => this.#run,
    })
    this.#folder = folder
  }

  static async create(limitBytes: number): Promise<OutputRoom> {
    const room = new OutputRoom(await temporaryFolder(), limitBytes)
    await room.begin()
    return room
  }

  /** Another run. */
  async begin(): Promise<void> {
    this.#run = await this.log.begin()
  }

  get run(): RunFolder {
    if (this.#run === undefined) throw new Error('There is a run from the beginning on.')
    return this.#run
  }

  get file(): string {
    return this.run.logFile
  }

  write(text: string | Buffer): Promise<void> {
    return appendFile(this.file, text)
  }

  /** One look at whether it is too long. */
  async look(): Promise<void> {
    await this.log.run(this.run).bounded()[Symbol.asyncDispose]()
  }

  /** Sizes of the files of the run, and of the one before with `.previous` in front. */
  async sizes(): Promise<Record<string, number>> {
    const service = dirname(dirname(this.file))
    const names = await readdir(service)
    const [newest = '', ...older] = names.toSorted((a, b) => (runNumber(b) ?? 0) - (runNumber(a) ?? 0))
    const previous = await Promise.all(older.map((name) => sizesIn(join(service, name))))
    const before = previous.flatMap((sizes) => Object.entries(sizes)).map(([name, size]) => [`.previous${name}`, size])
    return { ...(await sizesIn(join(service, newest))), ...Object.fromEntries(before) } as Record<string, number>
  }

  [Symbol.asyncDispose](): Promise<void> {
    return Promise.resolve(this.#folder[Symbol.asyncDispose]())
  }
}

/** Of the output files in the folder of a run, by what their names add to the first. */
export async function sizesIn(folder: string): Promise<Record<string, number>> {
  const names = (await readdir(folder)).filter((name) => name.startsWith('output.log')).toSorted()
  const sizes = names.map(
    async (name) => [name.slice('output.log'.length), (await stat(join(folder, name))).size] as const,
  )
  return Object.fromEntries(await Promise.all(sizes))
}
