import { readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { addTextSection, commandInfo, infoSection, MachOError, writeUuid } from '../../../tasks/package/mach-o.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

const words = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.alloc(values.length * 4)
  for (const [index, value] of values.entries()) bytes.writeUInt32LE(value >>> 0, index * 4)
  return bytes
}
const name16 = (name: string): Buffer => Buffer.concat([Buffer.from(name, 'latin1')], 16)
const command = (type: number, body: Buffer): Buffer => Buffer.concat([words(type, 8 + body.length), body])
const [arm, intel] = [0x0100000c, 0x01000007]
const shared = 'ab'.repeat(16)

interface Made {
  readonly cpu?: number
  /** Text of `__info_plist`; undefined: it has no such section. */
  readonly info?: string
  /** Between the load commands and what they name, and behind the code. */
  readonly room?: number
  /** Number of the section that its one symbol is in. */
  readonly symbolSection?: number
}

/** A Mach-O file with nothing in it but what is looked at. */
function made({ cpu = arm, info, room = 0, symbolSection = 2 }: Made = {}): Buffer {
  const texts = [['__text', 'code'], ...(info === undefined ? [] : [[infoSection, info]])]
  const code = Buffer.concat([...texts.map(([, text = '']) => Buffer.from(text)), Buffer.alloc(room)])
  const symbol = Buffer.concat([words(0), Buffer.from([0x0f, symbolSection]), Buffer.alloc(10)])
  const section = (name: string, segment: string, offset: number, length: number): Buffer =>
    Buffer.concat([name16(name), name16(segment), words(0, 0, length, 0, offset, 0, 0, 0, 0, 0, 0, 0)])
  const segment = (name: string, [from, length]: readonly [number, number], sections: readonly Buffer[]): Buffer => {
    const counts = words(0x1000 + from, 1, length, 0, from, 0, length, 0, 0, 0, sections.length, 0)
    return command(0x19, Buffer.concat([name16(name), counts, ...sections]))
  }
  const build = (start: number): Buffer[] => {
    const places = texts.map((_, index) =>
      texts.slice(0, index).reduce((sum, [, text = '']) => sum + text.length, start),
    )
    const offset = start + code.length
    return [
      segment(
        '__TEXT',
        [0, offset],
        texts.map(([name = '', text = ''], index) => section(name, '__TEXT', places[index] ?? 0, text.length)),
      ),
      segment('NODE_SEA', [offset, 8], [section('__NODE_SEA_BLOB', 'NODE_SEA', offset, 8)]),
      command(0x2, words(offset + 8, 1, 0, 0)),
      command(0x1b, Buffer.from(shared, 'hex')),
    ]
  }
  const size = Buffer.concat(build(0)).length
  const commands = build(32 + size + room)
  const header = words(0xfeedfacf, cpu, 0, 2, commands.length, size, 0, 0)
  return Buffer.concat([header, ...commands, Buffer.alloc(room), code, Buffer.from('the blob'), symbol])
}

test('a program gets a UUID of its own by what it is and its processor, and nothing else of it changes', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'program')
  const given = async (cpu: number, id: string): Promise<string> => {
    await writeFile(file, made({ cpu }))
    await writeUuid(file, id)
    return (await readFile(file)).toString('hex')
  }
  const [before = '', behind = ''] = made().toString('hex').split(shared)
  const uuidOf = (program: string) => program.slice(before.length, before.length + shared.length)
  const programs = [await given(arm, 'app'), await given(intel, 'app'), await given(arm, 'app Helper')]
  expect(new Set([...programs.map(uuidOf), shared]).size).toBe(4)
  expect(await given(arm, 'app')).toBe(programs[0])
  expect(programs[0]).toBe(`${before}${uuidOf(programs[0] ?? '')}${behind}`)
  await writeFile(file, 'a text that is long enough for the header of a program')
  await expect(writeUuid(file, 'app')).rejects.toThrow(MachOError)
})

test('an Info.plist is added behind the code, and whatever else the program names stays where it is', async () => {
  await using folder = await temporaryFolder()
  const file = path.join(folder.dir, 'program')
  const info = commandInfo('1.2.3')
  const added = async (given: Made): Promise<Buffer> => {
    await writeFile(file, made(given))
    await addTextSection(file, infoSection, Buffer.from(info))
    return readFile(file)
  }
  const room = info.length + 80
  const program = await added({ room })
  const symbol = (bytes: Buffer) => bytes.at(-11)
  // The load commands of a program that was made with the section, and the content where its header says.
  const withSection = made({ info, room: room - info.length - 80 + 40 })
  expect(program.subarray(16, 24)).toEqual(withSection.subarray(16, 24))
  const header = program.indexOf(infoSection)
  const offset = program.readUInt32LE(header + 48)
  expect(program.subarray(offset, offset + info.length).toString()).toBe(info)
  expect([program.length, symbol(program), symbol(await added({ room, symbolSection: 1 }))]).toEqual([
    made({ room }).length,
    3,
    1,
  ])
  await expect(added({ room: 79 })).rejects.toThrow(MachOError)
  await expect(added({ room: info.length - 1 })).rejects.toThrow('has no room for __info_plist')
  expect(await readFile(file)).toEqual(made({ room: info.length - 1 }))
})
