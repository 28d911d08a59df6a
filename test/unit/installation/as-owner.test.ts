import { execFileSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { execa } from 'execa'
import { expect, test } from 'vitest'
import { skipWhen } from '../../support/skip.ts'
import { temporaryFolder } from '../../support/temporary-folder.ts'

skipWhen(missing())

function missing(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root of Linux can become a user of its own'
  try {
    execFileSync('unshare', ['--mount', 'true'], { stdio: 'pipe' })
    return undefined
  } catch {
    return 'unshare (util-linux) cannot make a mount namespace here'
  }
}

const module = path.resolve(import.meta.dirname, '../../../src/installation/installation-host.ts')

/** Root of the groups 0, 4 and 20; prints its groups, and those of a child, while it works as anna and afterwards. */
const program = `
  import { execFileSync } from 'node:child_process'
  import { asOwner } from ${JSON.stringify(module)}
  process.setgroups([0, 4, 20])
  const ids = () => execFileSync('grep', ['-E', '^(Uid|Gid|Groups):', '/proc/self/status']).toString().split('\\n')
  const seen = () => {
    const [uid, gid, groups] = ids().map((line) => line.split(/\\s+/).slice(1).filter(Boolean).map(Number))
    return { user: uid[1], group: gid[1], groups: groups.sort((a, b) => a - b) }
  }
  const host = { isRoot: true, user: { name: 'anna', id: 4242, groupId: 4243, homeDir: '/' } }
  const meanwhile = await asOwner(host, async () => seen())
  const failed = await asOwner(host, async () => { throw new Error('no') }).catch(({ message }) => message)
  console.log(JSON.stringify({ meanwhile, failed, afterwards: seen() }))
`

test('what root does for a user is done with their groups and none of its own, which it has again afterwards, also after a failure', async () => {
  await using folder = await temporaryFolder()
  const groups = path.join(folder.dir, 'group')
  await writeFile(groups, 'root:x:0:\nanna:x:4243:\nstaff:x:4250:anna\nothers:x:4251:ben\nmedia:x:4252:ben,anna\n')
  const inNamespace = 'mount --bind "$1" /etc/group && exec "$2" --input-type=module -e "$3"'
  const words = ['--mount', 'sh', '-c', inNamespace, 'sh', groups, process.execPath, program]
  const { stdout } = await execa('unshare', words)
  expect(JSON.parse(stdout)).toEqual({
    meanwhile: { user: 4242, group: 4243, groups: [4243, 4250, 4252] },
    failed: 'no',
    afterwards: { user: 0, group: 0, groups: [0, 4, 20] },
  })
})
