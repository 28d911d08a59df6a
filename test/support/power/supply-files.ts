// Loaded into a program before its own code (`node --import`): what Linux says of the power supplies is what a folder says.
import fs from 'node:fs'
import { syncBuiltinESMExports } from 'node:module'
import { suppliesVariable } from './forged-supply.ts'

const real = '/sys/class/power_supply'
const folder = process.env[suppliesVariable] ?? real

const moved = (file: unknown): unknown =>
  typeof file === 'string' && file.startsWith(real) ? folder + file.slice(real.length) : file

const reading = <T extends (...given: never[]) => unknown>(read: T): T =>
  new Proxy(read, {
    apply: (target, self, [file, ...how]: unknown[]) => Reflect.apply(target, self, [moved(file), ...how]) as unknown,
  })

Object.assign(fs, { readdirSync: reading(fs.readdirSync), readFileSync: reading(fs.readFileSync) })
syncBuiltinESMExports()
