import { useState } from 'react'
import type { EnergyView } from '../../contract/power.ts'
import { Folded } from '../components/folded.tsx'
import type { EnergyTime } from '../energy-time.ts'
import { energyWords } from '../words/energy.ts'
import styles from './energy-table.module.css'

interface EnergyTableProps {
  readonly view: EnergyView
  readonly time: EnergyTime
}

/** Every figure of the bars, for those who want or need to read them. */
export function EnergyTable({ view, time }: EnergyTableProps) {
  const [isOpen, setOpen] = useState(false)
  return (
    <Folded title={energyWords.table} onToggle={setOpen}>
      {isOpen && <Rows view={view} time={time} />}
    </Folded>
  )
}

function Rows({ view: { spans = [], services, currency }, time }: EnergyTableProps) {
  const [first, ...others] = energyWords.columns(time)
  return (
    <table className={styles['table']}>
      <thead>
        <tr>
          {[first, ...others].map((name) => (
            <th key={name} scope="col">
              {name}
            </th>
          ))}
        </tr>
      </thead>
      {spans
        .filter(({ joules, services: counted }) => joules !== undefined || counted.length > 0)
        .map((span) => (
          <tbody key={span.from}>
            <tr>
              <th scope="rowgroup" rowSpan={span.services.length + 1}>
                {energyWords.spanName(span.from, time)}
              </th>
              <td>{energyWords.everything}</td>
              <td>{energyWords.cell(span, currency)}</td>
            </tr>
            {span.services.map((service) => (
              <tr key={`${service.namespace}/${service.name}`}>
                <td>{energyWords.service(service, services)}</td>
                <td>{energyWords.serviceCell(service, span, currency)}</td>
              </tr>
            ))}
          </tbody>
        ))}
    </table>
  )
}
