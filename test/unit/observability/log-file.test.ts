import { execFileSync, spawn } from 'node:child_process'
import { appendFileSync, readFileSync, statSync } from 'node:fs'
import { mkdir, readdir, rename, rm, stat, writeFile } from 'node:fs/promises'
import { createInterface } from 'node:readline'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { LogFile, type LogFileOptions } from '../../../src/agent-core/observability/log-file.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

class Trial implements AsyncDisposable {
  readonly dir: string
  readonly file: string
  log: LogFile
  readonly troubles: string[] = []
  readonly recovered: number[] = []
  readonly late: string[] = []
  now = 0
  readonly #folder: AsyncDisposable
  readonly #options: Partial<LogFileOptions>

  constructor(folder: AsyncDisposable & { readonly dir: string }, options: Partial<LogFileOptions>) {
    this.#folder = folder
    this.dir = path.join(folder.dir, 'logs')
    this.file = path.join(this.dir, 'agent.log')
    this.#options = options
    this.log = this.#newLog()
  }

  /** As the next agent does. */
  startAgain(): void {
    this.log.close()
    this.log = this.#newLog()
  }

  #newLog(): LogFile {
    return new LogFile({
      file: this.file,
      maxBytes: 1_000,
      count: 3,
      onTrouble: (message) => void this.troubles.push(message),
      onRecovered: (lines) => void this.recovered.push(lines),
      onLate: (text) => void this.late.push(text),
      now: () => this.now,
      ...this.#options,
    })
  }

  write(from: number, to: number): void {
    for (let number = from; number < to; number++) this.log.write(`${line(number)}\n`)
  }

  /** The numbers of the lines, oldest file first. */
  lines(): number[] {
    return linesOf(this.file)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.log.close()
    await this.#folder[Symbol.asyncDispose]()
  }
}

const line = (number: number): string => `line ${number} ${'x'.repeat(number % 40)}.`

/** Throws where a line is torn. */
function linesOf(file: string): number[] {
  const files = Array.from({ length: 100 }, (_, n) => (n === 0 ? file : `${file}.${n}`)).filter((name) =>
    statSync(name, { throwIfNoEntry: false })?.isFile(),
  )
  return files
    .toReversed()
    .flatMap((name) => readFileSync(name, 'utf8').split('\n').slice(0, -1))
    .map((text) => {
      const number = Number(/^line (\d+) /.exec(text)?.[1])
      if (text !== line(number)) throw new Error(`A line is torn: ${text}`)
      return number
    })
}

const numbers = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, n) => from + n)

async function trial(options: Partial<LogFileOptions> = {}): Promise<Trial> {
  return new Trial(await temporaryFolder(), options)
}

describe('a log of bounded size', () => {
  test('no line is lost or torn while files are renamed, and none is longer than its limit', async () => {
    await using it = await trial({ count: 100 })
    it.write(0, 2_000)
    expect(it.lines()).toEqual(numbers(0, 2_000))
    const sizes = await Promise.all(
      (await readdir(it.dir)).map(async (name) => (await stat(path.join(it.dir, name))).size),
    )
    expect(sizes.length).toBeGreaterThan(50)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(1_000)
  })

  test.each([
    [1, ['agent.log']],
    [3, ['agent.log', 'agent.log.1', 'agent.log.2']],
  ])('of %i files the newest lines are kept', async (count, names) => {
    await using it = await trial({ count })
    it.write(0, 500)
    expect((await readdir(it.dir)).toSorted()).toEqual(names)
    const kept = it.lines()
    expect(kept).toEqual(numbers(kept[0] ?? 0, 500))
  })

  test('the next agent goes on in the same file', async () => {
    await using it = await trial()
    it.write(0, 5)
    it.startAgain()
    it.write(5, 10)
    expect(it.lines()).toEqual(numbers(0, 10))
  })

  test('what comes after its close is not in the file, which another agent may write by then', async () => {
    await using it = await trial()
    it.write(0, 5)
    it.log.close()
    await rename(it.file, `${it.file}.1`)
    it.write(5, 6)
    expect([await readdir(it.dir), it.lines(), it.late]).toEqual([['agent.log.1'], numbers(0, 5), [`${line(5)}\n`]])
  })

  test('an agent that is killed leaves every line it has written', async () => {
    await using it = await trial({ count: 100 })
    const script = path.resolve(import.meta.dirname, 'log-until-killed.ts')
    const child = spawn(process.execPath, [script, it.file], { stdio: ['ignore', 'pipe', 'inherit'] })
    let last = 0
    for await (const text of createInterface(child.stdout)) {
      last = Number(text)
      if (last === 300) child.kill('SIGKILL')
    }
    const kept = it.lines()
    expect(last).toBeGreaterThanOrEqual(300)
    expect(kept.slice(0, last + 1)).toEqual(numbers(0, last + 1))
    expect(kept.length).toBeLessThanOrEqual(last + 2)
  })
})

describe('what others do to the file', () => {
  test.each([
    ['one that is renamed', () => undefined],
    ['one that is renamed with another in its place', (file: string) => writeFile(file, '')],
  ])('%s is begun anew, and no line is lost', async (_, create) => {
    await using it = await trial({ maxBytes: 1e6 })
    it.write(0, 10)
    await rename(it.file, `${it.file}.1`)
    await create(it.file)
    it.write(10, 20)
    expect(it.lines()).toEqual(numbers(0, 20))
    expect(linesOf(`${it.file}.1`)).toEqual(numbers(0, 10))
  })

  test('one that is removed with its folder is begun anew', async () => {
    await using it = await trial()
    it.write(0, 10)
    await rm(it.dir, { recursive: true })
    it.write(10, 20)
    expect([it.lines(), it.troubles]).toEqual([numbers(10, 20), []])
  })

  test('where the older files cannot be renamed it is cut rather than grown, which is said', async () => {
    await using it = await trial()
    await mkdir(path.join(it.dir, 'agent.log.1', 'in the way'), { recursive: true })
    it.write(0, 100)
    expect((await stat(it.file)).size).toBeLessThanOrEqual(1_000)
    expect(linesOf(it.file).at(-1)).toBe(99)
    expect(it.troubles[0]).toMatch(/^The log .*agent\.log cannot be renamed: .* It was truncated instead\.$/)
  })
})

test('a disk that is full costs lines, which are counted, and tears none', async ({ skip }) => {
  await using it = await trial({ maxBytes: 1e6 })
  await mkdir(it.dir)
  using _volume = mounted(it.dir) ?? skip('needs the right to mount a tmpfs')
  const filler = path.join(it.dir, 'filler')
  appendFileSync(filler, Buffer.alloc(40 * 1024))
  it.write(0, 4_990)
  expect(it.troubles).toEqual([
    expect.stringMatching(/^The log .* cannot be written: ENOSPC.* Log lines are lost until it can be\.$/),
  ])
  const before = it.lines()
  expect(before).toEqual(numbers(0, before.length))
  await rm(filler)
  it.write(4_990, 5_000)
  it.now = 1_000
  it.write(5_000, 5_010)
  expect(it.lines()).toEqual([...before, ...numbers(5_000, 5_010)])
  expect(it.recovered).toEqual([5_000 - before.length])
})

/** Undefined where this user may not mount. */
function mounted(folder: string): Disposable | undefined {
  const run = (...command: string[]): boolean => {
    try {
      execFileSync(command[0] ?? '', command.slice(1), { stdio: 'ignore' })
      return true
    } catch {
      return false
    }
  }
  if (!run('mount', '-t', 'tmpfs', '-o', 'size=64k', 'tmpfs', folder)) return undefined
  return { [Symbol.dispose]: () => void run('umount', '-l', folder) }
}
