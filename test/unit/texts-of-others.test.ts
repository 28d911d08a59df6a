import { llamaServerRuntime } from '../../src/agent-core/runtimes/llama-server.ts'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { cleanLines, cleanText, cutText, sentence } from '../../src/contract/clean-text.ts'
import { parseByteCount, parseDuration } from '../../src/contract/format.ts'
import { readSetting } from '../../src/contract/settings.ts'
import { parseQuantity } from '../../src/agent-core/memory/budget.ts'
import { contentKindOf } from '../../src/agent-core/models/content-kind.ts'
import { isProjector, parseShard, quantizationOf } from '../../src/agent-core/models/selection.ts'
import { modelNameOf } from '../../src/agent-core/models/pulls.ts'
import { isSafePath, modelFileName, parseModelSource, shownSource } from '../../src/agent-core/models/source.ts'
import { toLogValue } from '../../src/agent-core/observability/log.ts'
import { isSecretName } from '../../src/agent-core/util/redact.ts'
import { guessCause } from '../../src/agent-core/servers/crash-cause.ts'
import { findFirstError } from '../../src/agent-core/servers/crash-cause.ts'
import { judgeArguments } from '../../src/agent-core/runtimes/argument-policy.ts'
import { threadMs } from '../support/processor-time.ts'

/** Lengths at which a function that takes exponential, cubic or quadratic time gives itself away long before a test would hang. */
const lengths = [16, 20, 24, 28, 32, 40, 48, 64, 512, 4_096, 16_384, 65_536]
/** What it may take from one length to the next beyond what their ratio asks for; a quadratic one takes four times that at the last. */
const slack = 2.5
/** What is not told from noise, in milliseconds: some systems count in steps of ten. */
const noiseMs = 10

const functions: Readonly<Record<string, (text: string) => unknown>> = {
  cleanText,
  cleanLines,
  cutText: (text) => cutText(text, 1_024),
  sentence: (text) => sentence(text, 1_024),
  'a text in the log': toLogValue,
  'an error in the log': (text) => toLogValue(new Error(text, { cause: new Error(text) })),
  isSecretName,
  parseModelSource,
  shownSource,
  modelFileName,
  modelNameOf,
  isSafePath,
  parseShard,
  isProjector,
  quantizationOf,
  parseQuantity,
  parseDuration,
  parseByteCount,
  'a fraction': (text) => readSetting('fraction', text),
  'the kind of a file': (text) => contentKindOf(Buffer.from(text)),
  'the first error of an output': (text) => findFirstError([text]),
  'the cause of a crash': (text) =>
    guessCause({
      ...{ code: 1, signal: null, executable: '/x', outOf: 'start', system: 'linux', totalBytes: 1 },
      ...{ firstError: text, tail: [text] },
    }),
  'an argument': (text) =>
    judgeArguments(['--alias', text, text], { allowsUnsafe: false, modelRoots: ['/m'] }, llamaServerRuntime.flags),
}

/** What patterns begin, repeat and end with. */
const pieces = [
  ...['\uFEFF', ' ', '\t', '\n', '\r', '\0', '\u202E', '\uD800', '😀', '\u200B'],
  ...['/', '-', '.', '_', ':', '@', '?', '&', '=', '+', '*', '(', '[', '"', "'", '\\', '%', '#', '<', '$('],
  ...['0', '.0', 's000', 'a', 'a+', '0h', '://', '//:', '?token', '&sig', '?a=b', 'Bearer ', 'hf_', '<!--', 'hf://'],
  ...['Q4_', 'UD-Q4', 'mmproj', '.gguf', '-00001-of-', 'error', "tensor '", 'failed to allocate ', '--', '../'],
]

/** The first length for which it takes longer than that before it explains, three times in a row. */
function slowAt(run: (text: string) => unknown, [start, repeated, end]: readonly [string, string, string]) {
  let [lengthBefore, msBefore] = [lengths[0] ?? 0, 0]
  return lengths.find((length) => {
    const text = start + repeated.repeat(length / repeated.length) + end
    const allowedMs = (slack * Math.max(noiseMs, msBefore) * length) / lengthBefore
    lengthBefore = length
    msBefore = Infinity
    for (let tries = 0; tries < 3 && msBefore > allowedMs; tries += 1) {
      const before = threadMs()
      run(text)
      msBefore = Math.min(msBefore, threadMs() - before)
    }
    return msBefore > allowedMs
  })
}

describe('what touches texts of others takes a time that grows with their length and no faster', () => {
  test.each(Object.entries(functions))('%s', (_, run) => {
    for (const piece of pieces) {
      for (const end of ['', '~']) expect(slowAt(run, ['', piece, end]), JSON.stringify(piece)).toBeUndefined()
    }
    const piece = fc.constantFrom(...pieces)
    const attack = fc.tuple(
      piece,
      fc.array(piece, { minLength: 1, maxLength: 3 }).map((few) => few.join('')),
      piece,
    )
    fc.assert(
      fc.property(attack, (made) => slowAt(run, made) === undefined),
      { numRuns: 40, seed: 7, endOnFailure: true },
    )
  })
})
