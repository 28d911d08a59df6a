import { copyFile, rm, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { licenceOfNode, packFolder } from './archive.ts'
import type { BundledPackage } from './bundled-packages.ts'
import { thirdPartyNotices } from './notices.ts'

const root = path.join(import.meta.dirname, '../..')

/** What LLMKube's guides call the agent. */
export const goAgentName = 'llmkube-metal-agent'

/** Puts what belongs to a command beside it and packs both; answers the archive. */
export async function packCommand(folder: string, packages: readonly BundledPackage[]): Promise<string> {
  const notices = thirdPartyNotices(process.version, await licenceOfNode(), packages)
  await writeFile(path.join(folder, 'THIRD_PARTY_NOTICES'), notices)
  await writeFile(path.join(folder, 'README.md'), readme(path.basename(folder).includes('darwin')))
  await copyFile(path.join(root, 'LICENSE'), path.join(folder, 'LICENSE'))
  await rm(path.join(folder, goAgentName), { force: true })
  await symlink('metal-agent', path.join(folder, goAgentName))
  return packFolder(folder)
}

const readme = (isForMac: boolean): string => `# metal-agent

Makes a machine a Kubernetes inference node: the agent of Metalbar as one file, without the app. It needs nothing beside it. \`llmkube-metal-agent\` is the same
command by the name that LLMKube's agent has.

    ./metal-agent --help
${isForMac ? forMac : ''}
Licences: LICENSE of metal-agent, THIRD_PARTY_NOTICES of what is in it.
`

const forMac = `
macOS asks Apple about a program that a browser has downloaded, and a release is known there. One that you have built yourself is not: it
starts after

    codesign --sign - --force metal-agent
    xattr -d com.apple.quarantine metal-agent

of which the second is for a file that was downloaded.
`
