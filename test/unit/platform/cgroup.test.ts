import { mkdir, readFile, rmdir, writeFile } from 'node:fs/promises'
import { execa } from 'execa'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { cgroupFolders, cgroupMemory, cgroupPressureFile } from '../../../src/agent-core/platform/cgroup.ts'
import { LinuxPlatform } from '../../../src/agent-core/platform/linux.ts'
import { parsePressure } from '../../../src/agent-core/platform/proc-files.ts'
import { eventually } from '../../support/eventually.ts'
import { skipWhen } from '../../support/skip.ts'

const mounts1 = `31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
`
const mounts2 = '29 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n'
const pod = '29 23 0:26 /kubepods/pod1 /sys/fs/cgroup ro - cgroup2 cgroup rw\n'

const folders = (membership: string, mounts: string) => cgroupFolders(membership, mounts).map(({ folder }) => folder)

describe('the cgroup that we are in', () => {
  test.each<[string, string, string, string[]]>([
    [
      'v2',
      '0::/user.slice/agent.service\n',
      mounts2,
      ['/sys/fs/cgroup/user.slice/agent.service', '/sys/fs/cgroup/user.slice', '/sys/fs/cgroup'],
    ],
    [
      'v1, beside v2',
      '9:name=systemd:/\n4:memory:/a\n0::/b\n',
      mounts1,
      ['/sys/fs/cgroup/memory/a', '/sys/fs/cgroup/memory'],
    ],
    ['v1, together with another controller', '4:cpu,memory:/\n', mounts1, ['/sys/fs/cgroup/memory']],
    ['a container that sees only its part', '0::/kubepods/pod1/c\n', pod, ['/sys/fs/cgroup/c', '/sys/fs/cgroup']],
    ['a container whose namespace begins elsewhere', '0::/other\n', pod, ['/sys/fs/cgroup']],
    ['no cgroups at all', '', '', []],
    ['none mounted', '0::/a\n', '', []],
  ])('%s: every level that may have a limit is looked at', (_, membership, mounts, expected) => {
    expect(folders(membership, mounts)).toEqual(expected)
  })

  test('its pressure is in v2 alone, and not at the root', () => {
    expect([
      cgroupPressureFile('0::/a\n', mounts2),
      cgroupPressureFile('0::/\n', mounts2),
      cgroupPressureFile('4:memory:/a\n', mounts1),
    ]).toEqual(['/sys/fs/cgroup/a/memory.pressure', undefined, undefined])
  })

  test('what is left is the limit less what is used, where files that nobody uses do not count as used', () => {
    const [v2] = cgroupFolders('0::/a\n', mounts2)
    const [v1] = cgroupFolders('4:memory:/a\n', mounts1)
    if (!v1 || !v2) throw new Error('no level')
    expect([
      cgroupMemory(v2, { limit: '1000\n', usage: '700\n', stat: 'active_file 5\ninactive_file 50\n' }),
      cgroupMemory(v1, { limit: '1000\n', usage: '700\n', stat: 'inactive_file 1\ntotal_inactive_file 50\n' }),
      cgroupMemory(v2, { limit: 'max\n', usage: '700\n', stat: '' }),
      cgroupMemory(v2, { limit: undefined, usage: undefined, stat: undefined }),
      cgroupMemory(v2, { limit: '500\n', usage: '700\n', stat: undefined }),
      cgroupMemory(v2, { limit: '500\n', usage: '400\n', stat: 'inactive_file 900\n' }),
    ]).toEqual([
      { limitBytes: 1000, availableBytes: 350 },
      { limitBytes: 1000, availableBytes: 350 },
      undefined,
      undefined,
      { limitBytes: 500, availableBytes: 0 },
      { limitBytes: 500, availableBytes: 500 },
    ])
  })
})

const stalled = (some: string, full: string) =>
  `some avg10=${some} avg60=0.00 avg300=0.00 total=0\nfull avg10=${full} avg60=0.00 avg300=0.00 total=0\n`

test.each([
  [stalled('0.00', '0.00'), 'normal'],
  [stalled('10.00', '10.00'), 'normal'],
  [stalled('10.01', '0.00'), 'warning'],
  [stalled('60.00', '10.01'), 'critical'],
  [stalled('0,00', '0,00'), undefined],
  [stalled('60.00', '50.00').slice(0, 12), undefined],
  ['', undefined],
])('a kernel that tells %j is under pressure: %s', (text, level) => {
  expect(parsePressure(text)).toBe(level)
})

const limitBytes = 512 * 1024 ** 2
const takenBytes = 200 * 1024 ** 2

const figures = z.object({ totalBytes: z.number(), availableBytes: z.number() })

/** What a process in the cgroup sees before and after it takes memory. */
async function memoryAroundTaking(folder: string) {
  const linux = new URL('../../../src/agent-core/platform/linux.ts', import.meta.url).href
  const script = `
    import { LinuxPlatform } from '${linux}'
    const platform = new LinuxPlatform()
    const before = await platform.memory()
    const taken = Buffer.alloc(${takenBytes}, 1)
    console.log(JSON.stringify([before, await platform.memory(), taken.length]))`
  const enter = 'echo $$ > "$0/cgroup.procs" && exec "$@"'
  const { stdout } = await execa('/bin/sh', [
    '-c',
    enter,
    folder,
    process.execPath,
    '--input-type=module',
    '-e',
    script,
  ])
  return z.tuple([figures, figures]).rest(z.number()).parse(JSON.parse(stdout))
}

async function limitedCgroup() {
  const [own] = cgroupFolders(
    await readFile('/proc/self/cgroup', 'utf8'),
    await readFile('/proc/self/mountinfo', 'utf8'),
  )
  if (!own) throw new Error('this process is in no cgroup that counts memory')
  const folder = `${own.folder}/metalbar-test-${process.pid}`
  await mkdir(folder)
  try {
    await writeFile(`${folder}/${own.files.limit}`, String(limitBytes))
  } catch (error) {
    await rmdir(folder)
    throw error
  }
  return {
    folder,
    [Symbol.asyncDispose]: async () => {
      await eventually(() => rmdir(folder).then(() => true))
    },
  }
}

/** Why no cgroup with a limit can be made here; undefined when one can. */
async function missingCgroups(): Promise<string | undefined> {
  if (process.platform !== 'linux') return 'cgroups need Linux'
  try {
    await using cgroup = await limitedCgroup()
    return cgroup.folder === '' ? 'no cgroup' : undefined
  } catch (error) {
    return `a cgroup with a limit cannot be made here: ${error instanceof Error ? error.message : String(error)}`
  }
}

const missing = await missingCgroups()

describe('a real cgroup', () => {
  skipWhen(missing)

  test('bounds what there is, and what a process in it takes is not available any more', async () => {
    await using cgroup = await limitedCgroup()
    const [before, after] = await memoryAroundTaking(cgroup.folder)
    const own = await new LinuxPlatform().memory()
    expect(before).toMatchObject({ totalBytes: limitBytes })
    expect(own.totalBytes).toBeGreaterThan(limitBytes)
    expect(before.availableBytes).toBeLessThan(limitBytes)
    const difference = before.availableBytes - after.availableBytes
    expect(difference).toBeGreaterThan(0.75 * takenBytes)
    expect(difference).toBeLessThan(1.25 * takenBytes)
  })
})
