import { parseArgs } from 'node:util'
import { z } from 'zod'
import { buildApp, updatesFrom } from './app/app-build.ts'
import { missingForNotary } from './app/signature.ts'

/** `node tasks/package/build-app.ts --dir`, after `npm run build` and with the command of each architecture in `--commands`. */
const { values } = parseArgs({
  options: {
    flavour: { type: 'string', default: 'release' },
    arch: { type: 'string', multiple: true, default: ['arm64', 'x64'] },
    dir: { type: 'boolean', default: false },
    commands: { type: 'string', default: 'out/package' },
    output: { type: 'string', default: 'out/app' },
    electron: { type: 'string' },
    signed: { type: 'boolean', default: false },
  },
})
const { flavour, arch } = z
  .object({ flavour: z.enum(['release', 'e2e']), arch: z.array(z.enum(['arm64', 'x64'])) })
  .parse(values)

const missing = values.signed ? missingForNotary(process.env) : []
if (missing.length > 0) throw new Error(`--signed asks Apple's notary too, which needs ${missing.join(', ')}.`)

await buildApp({
  flavour,
  archs: arch,
  targets: values.dir ? ['dir'] : ['dmg', 'zip'],
  commands: values.commands,
  output: values.output,
  electronDist: values.electron,
  updates: updatesFrom(process.env['METALBAR_UPDATES']),
  mustSign: values.signed,
})
