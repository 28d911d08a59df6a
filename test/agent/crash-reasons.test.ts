import { chmod, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { writeLlamaGguf } from '../support/gguf-writer.ts'
import { useLlamaServer } from '../support/skip.ts'
import { ServerRoom } from '../unit/servers/server-room.ts'

describe('the real llama-server ends, and a person reads why and what to do about it', () => {
  const executable = useLlamaServer()

  test.each<[what: string, prepare: (file: string) => Promise<void>, words: readonly string[], told: RegExp]>([
    [
      'a web page for a model',
      (file) => writeFile(file, '<!DOCTYPE html><html><body>Log in</body></html>'),
      [],
      /: gguf_init_from_reader: invalid magic characters.* The model file is a web page: /,
    ],
    [
      'a file that is damaged',
      (file) => writeFile(file, Buffer.concat([Buffer.from('GGUF'), Buffer.alloc(1_000, 0xee)])),
      [],
      /: gguf_init_from_reader: .* The model file is damaged, cut short, or newer than this llama-server: /,
    ],
    [
      'a file cut short',
      async (file) => {
        await writeLlamaGguf(file)
        await writeFile(file, (await readFile(file)).subarray(0, 300_000))
      },
      [],
      /: llama_model_load: error loading model: tensor .* The model file is damaged, cut short, or newer /,
    ],
    [
      'an architecture it does not know',
      (file) => writeLlamaGguf(file, { metadata: { 'general.architecture': 'banana' } }),
      [],
      /unknown model architecture: 'banana'\. This llama-server does not know this kind of model: /,
    ],
    [
      'an argument it does not know',
      (file) => writeLlamaGguf(file),
      ['--no-such-argument'],
      /: error: invalid argument: --no-such-argument\. This llama-server does not take that argument or its value: /,
    ],
  ])('%s', async (_what, prepare, words, told) => {
    await using room = await ServerRoom.create()
    const file = join(room.folder, 'model.gguf')
    await prepare(file)
    room.start({}, { executable, argv: (port) => ['--port', String(port), '--model', file, ...words] })
    const { code, outOf, message } = await room.settled()
    expect({ code, outOf }).toEqual({ code: 1, outOf: 'start' })
    expect(message).toMatch(/^llama-server exited with code 1 while starting: /)
    expect(message).toMatch(told)
  })

  test.skipIf(process.platform !== 'linux')('a library it needs that is not there', async () => {
    await using room = await ServerRoom.create()
    const broken = join(room.folder, 'llama-server')
    const program = await readFile(executable)
    program.write('libc.so.9\0', program.indexOf('libc.so.6\0'))
    await writeFile(broken, program)
    await chmod(broken, 0o755)
    room.start({}, { executable: broken })
    expect((await room.settled()).message).toMatch(
      /while starting: .*error while loading shared libraries: libc\.so\.9.*\. A library that it needs is missing or does not fit: /,
    )
  })
})
