// Checks a request by a yup schema and gathers what is wrong.
// request: {"args":{"good":{"amount":"12.5","email":"zoe@example.com","card":{"number":"4242424242424242","month":12},"tags":["a","b"]},"bad":{"amount":-1,"email":"nope","card":{"number":"42","month":13},"tags":[]}}}
const yup = require('yup');

const schema = yup.object({
  amount: yup.number().positive().required(),
  email: yup.string().email().required(),
  currency: yup.string().oneOf(['EUR', 'USD']).default('EUR'),
  card: yup.object({
    number: yup
      .string()
      .matches(/^\d{12,19}$/, 'number is no card number')
      .required(),
    month: yup.number().integer().min(1).max(12),
    name: yup.string().when('month', { is: 12, then: (s) => s.default('december') }),
  }),
  tags: yup.array().of(yup.string()).min(1),
});

module.exports = async ({ args: { good, bad } }) => {
  const wrong = await schema.validate(bad, { abortEarly: false }).catch((error) => error);
  const first = await schema.validate(bad).catch((error) => error.message);
  return {
    raw: {
      cast: await schema.validate(good),
      name: wrong.name,
      errors: wrong.errors,
      inner: wrong.inner.map(({ path, type }) => [path, type]),
      first,
      isValid: [schema.isValidSync(good), schema.isValidSync(bad)],
      described: Object.keys(schema.describe().fields),
    },
  };
};
