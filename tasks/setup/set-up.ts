import { createReadStream } from 'node:fs'
import { mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { cacheFolder } from './cache.ts'
import type { Part } from './part.ts'

/** How often a running build says that it still runs. */
const reportIntervalMs = 30_000

/** What of a tool's output fits beside the part's name on one line. */
const excerptLength = 100

export interface MissingPart {
  readonly part: Part
  /** In one sentence, with what to do. */
  readonly reason: string
}

/** Finds or builds the parts, all at the same time. @returns those that this machine cannot have. */
export async function setUp(parts: readonly Part[], report: (line: string) => void): Promise<MissingPart[]> {
  const outcomes = await Promise.all(parts.map((part) => setUpOne(part, (line) => report(`[${part.name}] ${line}`))))
  return outcomes.filter((outcome) => outcome !== undefined)
}

async function setUpOne(part: Part, report: (line: string) => void): Promise<MissingPart | undefined> {
  const found = part.find()
  if (found.found) {
    report(`found: ${found.path} (${found.origin})`)
    return undefined
  }
  try {
    const lack = await part.lacks()
    if (lack !== undefined) throw new Error(lack)
    await build(part, report)
    const built = part.find()
    if (!built.found) throw new Error(built.reason)
    report(`ready: ${built.path}`)
    return undefined
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    report(`missing: ${reason}`)
    return { part, reason }
  }
}

async function build(part: Part, report: (line: string) => void): Promise<void> {
  const logFolder = join(cacheFolder(), 'logs')
  const log = join(logFolder, `${part.name}-${process.pid}.log`)
  await mkdir(logFolder, { recursive: true })
  await writeFile(log, '')
  report(`building ${part.about} (log: ${log})`)
  const start = performance.now()
  const elapsed = () => `${((performance.now() - start) / 60_000).toFixed(1)} min`
  const timer = setInterval(() => {
    void lastLine(log).then((line) => report(`building for ${elapsed()}: ${line}`))
  }, reportIntervalMs)
  try {
    await part.build(log)
    report(`built in ${elapsed()}`)
  } finally {
    clearInterval(timer)
  }
}

async function lastLine(file: string): Promise<string> {
  let last = ''
  for await (const line of createInterface({ input: createReadStream(file) })) last = line === '' ? last : line
  return last.slice(0, excerptLength)
}
