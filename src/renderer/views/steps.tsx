import { type ServiceView, type Step, type StepName, stepNames } from '../../contract/service.ts'
import { stepWords } from '../../contract/words.ts'
import { StepGlyph } from '../components/glyph.tsx'
import { Sentence } from '../components/sentence.tsx'
import { stepsWords } from '../words/detail.ts'
import styles from './steps.module.css'

export function Steps({ steps }: { readonly steps: ServiceView['steps'] }) {
  return (
    <ol className={styles['steps']} aria-label={stepsWords.title}>
      {stepNames.map((name) => (
        <StepLine key={name} name={name} step={steps[name]} />
      ))}
    </ol>
  )
}

function StepLine({ name, step: { status, message } }: { readonly name: StepName; readonly step: Step }) {
  return (
    <li className={styles['step']} data-status={status}>
      <StepGlyph status={status} />
      <div className={styles['words']}>
        <span className={styles['name']}>{stepWords[name]}</span>
        <span className={styles['status']}>
          <Sentence text={message ?? stepsWords.status[status]} />
        </span>
      </div>
    </li>
  )
}
